"""The reports function: `POST /reports` accepts a job, and `GET` reads the report."""
