"""The operator's tools: read and change what a deployed or local service has stored.

`commands` is the command line. It and the console use the same two rooms: `records` reads, and
`actions` changes, through the layer's own flows. `targets` says which tables they work on.
"""
