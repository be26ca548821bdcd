"""Requests to methods, as tests of theory make them."""

from lessbits.methods.gradients import Gradients
from lessbits.methods.prediction import predict_step_sizes, theory_inputs
from lessbits.methods.request import MethodRequest


def request_for(problem, network, quantizer, option="B", messages=None, batch_size=1, corrected=False):
    return MethodRequest(problem, network, quantizer, Gradients(option, batch_size), messages, corrected)


def inputs_for(*choices, **named):
    return theory_inputs(request_for(*choices, **named))


def prediction_for(*choices, **named):
    return predict_step_sizes(request_for(*choices, **named))
