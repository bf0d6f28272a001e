"""The client: the asynchronous one is written by hand, the synchronous one is generated from it."""
# Generated from the file of this name in _async by generate.py.
