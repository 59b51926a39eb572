"""Is it any good: golden questions, and what a pipeline makes of them."""
