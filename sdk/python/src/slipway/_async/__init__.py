"""The client: the asynchronous one is written by hand, the synchronous one is generated from it."""
