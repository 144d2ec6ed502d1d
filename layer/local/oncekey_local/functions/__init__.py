"""The functions as processes: sandboxes, and the Lambda Runtime API that serves them."""
