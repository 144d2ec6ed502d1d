"""The payments function: `POST /payments` accepts, `GET /payments/{payment_id}` reads."""
