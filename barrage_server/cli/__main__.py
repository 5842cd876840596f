"""``python -m barrage_server.cli`` is the ``barrage-server`` program."""

from barrage_server.cli import main

main()
