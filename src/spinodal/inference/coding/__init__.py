"""Codes with a fixed matrix, and dictionaries learned by them: what the estimators use. Samples are in rows here.

`infer_codes` finds the codes of samples given the components: by expectation propagation (`ep`), or by vector approximate message passing
(`vamp`) where speed counts, in `blocks` of one size. `fit_components` learns the components: message passing or samples are the start
(`starts`), expectation maximisation (`em`) refines in `rounds` over all samples or, if they are many, in a `stream` of minibatches from
anywhere (`sources`), and `scales` are fixed at the end. `learned` is the model as it is published, and what it says of samples; how
samples are best restored is found by `restoring`.
"""

from .api import infer_codes
from .em import cost
from .fit import Fitted, Ongoing, begun, fit_components, fit_minibatches, fitted_so_far, went_on
from .learned import Learned, code_interval, code_std, published_codes, restored_std
from .model import Codes, CodingModel, Slab
from .restoring import for_restoring
from .sources import is_lazy
from .starts import Given, Nominal, Options
from .stream import BATCH as LEAST_ROWS

__all__ = [
    "LEAST_ROWS",
    "Codes",
    "CodingModel",
    "Fitted",
    "Given",
    "Learned",
    "Nominal",
    "Ongoing",
    "Options",
    "Slab",
    "begun",
    "code_interval",
    "code_std",
    "cost",
    "fit_components",
    "fit_minibatches",
    "fitted_so_far",
    "for_restoring",
    "infer_codes",
    "is_lazy",
    "published_codes",
    "restored_std",
    "went_on",
]
