"""`python -m watersmeet`: the command line, where its script is not on the path."""

from watersmeet.cli.commands import main

if __name__ == "__main__":
    main(prog_name="watersmeet")
