"""Flower's server or one of its clients, in an environment of its own that has `flwr`, NumPy and SciPy.

    python flower_worker.py server NOTES SETTINGS.json
    python flower_worker.py client ROWS.npz SETTINGS.json

FedAvg, or FedProx, which adds (μ/2)‖x - x_server‖² to the loss of a client. A client takes so many steps of gradient
descent on all its rows in each round; with minibatches it would not reach 1e-6 at all.
"""

import atexit
import json
import sys
from pathlib import Path

import numpy as np
from losses import Loss, read_rows
from notes import Notes


def serve(file, given):
    from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
    from flwr.server import ServerConfig, start_server
    from flwr.server.strategy import FedAvg, FedProx

    notes = Notes(file)
    atexit.register(notes.save)  # Flower ends in an orderly way when it is told to
    kind = FedProx if given["proximal"] else FedAvg

    class Noted(kind):
        def configure_fit(self, server_round, parameters, client_manager):
            chosen = super().configure_fit(server_round, parameters, client_manager)  # waits for all clients
            notes.add(server_round - 1, parameters_to_ndarrays(parameters)[0])
            return chosen

        def aggregate_fit(self, server_round, results, failures):
            found = super().aggregate_fit(server_round, results, failures)
            if server_round == given["rounds"]:
                notes.add(server_round, parameters_to_ndarrays(found[0])[0])
            return found

    clients = given["clients"]
    options = {"proximal_mu": given["proximal"]} if given["proximal"] else {}
    strategy = Noted(
        fraction_evaluate=0.0,
        min_fit_clients=clients,
        min_available_clients=clients,
        initial_parameters=ndarrays_to_parameters([np.zeros(given["dim"], np.float32)]),
        **options,
    )
    start_server(server_address=given["address"], config=ServerConfig(num_rounds=given["rounds"]), strategy=strategy)


def take_part(file, given):
    from flwr.client import NumPyClient, start_client

    loss = Loss(given["kind"], *read_rows(Path(file)), given["regularization"], given["classes"])

    class Client(NumPyClient):
        def fit(self, parameters, config):
            x = local_steps(loss, parameters[0].astype(float), given["steps"], given["rate"], given["proximal"])
            return [x.astype(np.float32)], len(loss.labels), {}

    start_client(server_address=given["address"], client=Client().to_client(), insecure=True, max_wait_time=120)


def local_steps(loss, x, steps, rate, proximal):
    """Take steps of gradient descent from the server's x."""
    start = x
    for _ in range(steps):
        x = x - rate * (loss(x)[1] + proximal * (x - start))
    return x


if __name__ == "__main__":
    role, place, settings = sys.argv[1:]
    (serve if role == "server" else take_part)(place, json.loads(Path(settings).read_text()))
