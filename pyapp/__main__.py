"""`python -m pyapp` is `pyapp`."""

from pyapp.cli import main

if __name__ == "__main__":
    main()
