"""The payments function: `POST /payments` charges once, `GET /payments/{payment_id}` reads."""
