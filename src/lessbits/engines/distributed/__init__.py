"""The engine of real messages: nodes in several processes that exchange bytes."""
