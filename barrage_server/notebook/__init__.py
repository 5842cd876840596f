"""Tables in notebooks: widgets with the grid and the plots of the page, whose data go through the kernel."""

from barrage_server.notebook.display import show

__all__ = ["show"]
