"""The schedule that a scheduler_config.json of diffusers, or a name of the command line, asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyapp.errors import OptionError

from ..loading.config import read_config, require
from .deviations import (
    DEIS,
    DPM,
    KDPM2,
    LMS,
    Euler,
    EulerAncestral,
    FlowDPM,
    Heun,
    KDPM2Ancestral,
    Sigmas,
    SingleStep,
    UniPC,
)
from .schedules import DDIM, DDPM, FLOW, LCM, PNDM, TCD, Schedule, ScheduleConfig

# By the class that a scheduler_config.json names.
SCHEDULES: Mapping[str, type[Schedule]] = {
    "DDIMScheduler": DDIM, "DDPMScheduler": DDPM, "PNDMScheduler": PNDM, "LCMScheduler": LCM,
    "EulerDiscreteScheduler": Euler, "EulerAncestralDiscreteScheduler": EulerAncestral, "HeunDiscreteScheduler": Heun,
    "LMSDiscreteScheduler": LMS, "DPMSolverMultistepScheduler": DPM, "UniPCMultistepScheduler": UniPC,
    "KDPM2DiscreteScheduler": KDPM2, "KDPM2AncestralDiscreteScheduler": KDPM2Ancestral,
    "DPMSolverSinglestepScheduler": SingleStep, "DEISMultistepScheduler": DEIS, "TCDScheduler": TCD,
}  # fmt: skip
FLOW_NAME = "dpm++"  # of the schedule of flow matching that is not Euler's
KARRAS = "-karras"  # after a name: with Karras' deviations
_NAMES: Mapping[str, type[Schedule]] = {
    "ddim": DDIM, "ddpm": DDPM, "deis": DEIS, "dpm++": DPM, "dpm++-single": SingleStep, "dpm2": KDPM2,
    "dpm2-ancestral": KDPM2Ancestral, "euler": Euler, "euler-ancestral": EulerAncestral, "heun": Heun, "lcm": LCM,
    "lms": LMS, "pndm": PNDM, "tcd": TCD, "unipc": UniPC,
}  # fmt: skip
# By the names of the command line.
NAMES: Mapping[str, type[Schedule]] = {
    name + end: kind
    for name, kind in _NAMES.items()
    for end in ("", KARRAS)
    if not end or (issubclass(kind, Sigmas) and kind is not EulerAncestral)
}
UNSUPPORTED = ("use_beta_sigmas", "use_lu_lambdas", "thresholding", "trained_betas")


def read_schedule(values: Mapping[str, Any], name: str | None = None) -> tuple[type[Schedule], ScheduleConfig]:
    """The schedule of a scheduler_config.json and its numbers; `name` chooses another one (NAMES). ModelError for an
    unknown one, OptionError for an unknown name.
    """
    if name is not None and name not in NAMES:
        raise OptionError(f"{name!r:.60} is not a schedule", where="schedule", hint=f"Schedules: {', '.join(NAMES)}")
    for setting in UNSUPPORTED:
        require(not values.get(setting), f"a schedule with {setting} is not supported")
    kind = values.get("_class_name")
    known = isinstance(kind, str) and kind in SCHEDULES
    require(known or name is not None, f"the schedule {kind!r:.60} is not known", f"Known: {', '.join(SCHEDULES)}")
    if name is None:
        chosen, given = SCHEDULES[str(kind)], values
    else:  # what other schedules say of their solver is not for this one
        own = ("solver_order", "solver_type", "algorithm_type", "predict_x0", "disable_corrector", "interpolation_type")
        chosen = NAMES[name]
        given = {key: value for key, value in values.items() if key not in own or SCHEDULES.get(str(kind)) is chosen}
    flows = bool(values.get("use_flow_sigmas"))
    said = values.get("prediction_type") == FLOW
    require(flows == said, f"a schedule of {values.get('prediction_type')!r:.60} with use_flow_sigmas {flows}")
    if flows:
        if name not in (None, FLOW_NAME):
            hint = f"Its steps are those of {FLOW_NAME}"
            raise OptionError(f"{name!r:.60} is not a schedule of this model", where="schedule", hint=hint)
        require(chosen is DPM, f"a {kind} with use_flow_sigmas is not supported")
        for setting in ("use_karras_sigmas", "use_exponential_sigmas", "use_dynamic_shifting"):
            require(not values.get(setting), f"a schedule with use_flow_sigmas and {setting} is not supported")
        return FlowDPM, read_config(ScheduleConfig, values)
    if chosen is EulerAncestral:
        given = {key: value for key, value in given.items() if not key.startswith("use_")}
    if chosen is SingleStep:
        given = {"lower_order_final": False, **given}
    config = read_config(ScheduleConfig, given)
    if name is None:
        return chosen, config
    if name.endswith(KARRAS):
        config = replace(config, use_karras_sigmas=True, use_exponential_sigmas=False)
    return chosen, replace(config, skip_prk_steps=True)
