"""A folder for PYTHONPATH: Python imports its `sitecustomize` before a script, and that arms DDP (`weft run`)."""
