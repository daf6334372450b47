"""`python -m tests.synthetic FAMILY FOLDER` writes a checkpoint."""

from tests.synthetic.models import main

main()
