"""Tables in notebooks: widgets with the grid and the plots of the page.

The data pass through the kernel.
"""

from barrage_server.notebook.display import show

__all__ = ["show"]
