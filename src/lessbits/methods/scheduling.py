"""The model of a request that schedules are found for: modes, how they start, and the target."""

import jax.numpy as jnp
import numpy as np

from lessbits._internal.answers import kept_answer
from lessbits.codecs import make_codec
from lessbits.codecs.frames import header_bytes
from lessbits.errors import InputError
from lessbits.methods.prediction import theory_inputs
from lessbits.methods.request import MethodRequest
from lessbits.networks.network import Network
from lessbits.quantizers.fading import LARGEST, Fading
from lessbits.theory import schedule_modes, schedules
from lessbits.theory.mean_square import CURVATURES, WORST_CONDITION
from lessbits.theory.schedule_modes import Modes, Schedule
from lessbits.theory.schedules import find_schedule

REDUCTION = 1e-6  # of the squared error, if there is no target
MOST_NODES = 2000  # larger networks would take minutes: all eigenvectors are computed
MOST_EIGENVALUES = 64  # near ones are joined beyond
DIGITS = 9  # of eigenvalues: equal ones differ by rounding
SCALE_STEPS = 16  # in an octave: the measured scale is rounded, so that all ranks find the same schedule
NUMBER_BITS = 64  # of a message with one float32, and its checksum
MODEL_BITS = 12  # of a message: the number of its model, and half a byte at the end


def scheduled_steps(request: MethodRequest) -> Schedule:
    """Return the schedule of a request."""
    modes = modes_of(request)
    target = REDUCTION * first_error(modes) if request.target is None else request.target
    least = float(jnp.finfo(jnp.result_type(float)).eps) ** 2 * first_error(modes)  # of the square of rounding
    if not least <= target < first_error(modes):
        raise InputError(
            f"scheduled was asked for a squared error of {target:g}, but the first is about {first_error(modes):.2g}: "
            f"give a target below that, and above rounding, {least:.2g}"
        )
    codec = make_codec(request.quantizer, modes.dim)
    question = (modes, target, 8 * header_bytes(codec) + MODEL_BITS, LARGEST)

    def search() -> list[float]:
        return [float(number) for row in find_schedule(*question) for number in row]

    found = kept_answer((schedule_modes.__file__, schedules.__file__), question, search)
    return Schedule(*np.reshape(found, (len(Schedule._fields), -1)))


def agreement_bits(network: Network) -> float:
    """Return the bits per link that agreeing on the scale takes: a sum up a tree, and the mean down, in float32."""
    return NUMBER_BITS * 2 * (network.nodes - 1) / network.links


def first_error(modes: Modes) -> float:
    """Return E‖x_i - x*‖² at the start, as the model has it."""
    return modes.dim * float(modes.share @ modes.start[:, 0] ** 2)


def modes_of(request: MethodRequest) -> Modes:
    """Return the modes: curvatures from μ of the mean loss to L, for each eigenvalue of the network, and their start.

    Nodes that average start at their own vectors, so their iterates disagree from the start. Other nodes start at a
    point that all know, so their dual variables are wrong: by about as much as their first gradients. Coordinates of
    the solution are taken to be alike. How large they are follows from the gradients and curvatures.
    """
    problem, network = request.problem, request.network
    inputs = theory_inputs(request, noise=False)
    convexity = problem.convexity if problem.averages else problem.mean_convexity
    least = max(convexity, inputs.smoothness / WORST_CONDITION)
    curvatures = np.geomspace(least, inputs.smoothness, CURVATURES if least < inputs.smoothness else 1)
    eigenvalues, share, seen, links = _spectrum(network)
    iterate, gradient = (_rounded(square) for square in problem.first_squares().mean(axis=0))
    assert isinstance(request.quantizer, Fading)
    unit = float(request.quantizer.spacing(0))
    if problem.averages:
        apart, together = (iterate, iterate, 0.0), (0.0, 0.0, -iterate)
    else:
        distance = gradient / float(np.sqrt(np.mean(curvatures**2)))
        apart, together = (0.0, gradient, 0.0), (distance, 0.0, distance)
    start = np.where((eigenvalues > 0)[:, None], apart, together) * unit
    count = len(curvatures)
    return Modes(
        np.repeat(curvatures, len(eigenvalues)),
        np.tile(eigenvalues, count),
        np.tile(share, count) / count,
        np.tile(start, (count, 1)),
        network.nodes,
        np.tile(seen, (1, count)) / count,
        links,
        problem.dim,
    )


def _rounded(square: float) -> float:
    """Return the root of a mean square, rounded to a sixteenth of an octave; 1 for zero."""
    return float(2 ** (np.round(SCALE_STEPS * np.log2(square) / 2) / SCALE_STEPS)) if square > 0 else 1.0


def _spectrum(network: Network) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct eigenvalues of W, their shares, their shares in nodes of each degree, and the links of those.

    A coordinate of a node has the variance of each mode, times the squared entry of its eigenvector.
    """
    if network.nodes > MOST_NODES:
        raise InputError(f"scheduled was asked for {network.nodes} nodes, but it has at most {MOST_NODES}: take lead")
    found, vectors = np.linalg.eigh(network.laplacian().toarray())
    found = np.where(found > network.lambda_min / 2, found.round(DIGITS), 0.0)
    eigenvalues, place = np.unique(found, return_inverse=True)
    if len(eigenvalues) > MOST_EIGENVALUES:
        edges = np.geomspace(network.lambda_min * (1 - 1e-6), network.lambda_max, MOST_EIGENVALUES)
        place = np.unique(np.searchsorted(edges, found), return_inverse=True)[1]
        eigenvalues = np.bincount(place, found) / np.bincount(place)
    parts = np.zeros((network.nodes, len(eigenvalues)))
    np.add.at(parts.T, place, vectors.T**2)
    degrees = np.unique(network.degree)
    seen = np.array([parts[network.degree == degree].mean(axis=0) for degree in degrees])
    links = np.array([network.degree[network.degree == degree].sum() for degree in degrees]) / network.links
    return eigenvalues, np.bincount(place) / network.nodes, seen, links
