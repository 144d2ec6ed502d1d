"""The reports function: `POST /reports` is accepted and worked on later, `GET` reads what came."""
