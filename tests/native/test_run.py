"""The library's own functions: running records, the pool of threads, cancelling, memory."""

from __future__ import annotations

import hashlib
import os
import threading

import numpy as np
import pytest

from tests.native.kernels import BAD_ARGUMENT, CANCELLED, HEADER, INDEX_RANGE, OK, Kernels, Launch
from tests.native.piped import header_signature

pytestmark = [pytest.mark.native_only, pytest.mark.host_library]


def linear(kernels: Kernels, rows: int = 3, outputs: int = 301, inputs: int = 129, work: int = 1000) -> np.ndarray:
    random = np.random.default_rng(7)
    x, w = (random.standard_normal(shape, np.float32) for shape in ((rows, inputs), (outputs, inputs)))
    y = np.full((rows, outputs), np.nan, np.float32)
    arguments = dict(rows=rows, outputs=outputs, inputs=inputs, y_stride=outputs, x_stride=inputs)
    assert kernels.run("linear_f32", work, y=y, x=x, w=w, **arguments) == OK
    return y


def test_signature_is_the_hash_of_the_header(kernels: Kernels) -> None:
    assert kernels.library.pyapp_signature().decode() == header_signature()


def test_instruction_set_can_be_forced(kernels: Kernels) -> None:
    assert kernels.library.pyapp_instruction_set().decode() == kernels.name


@pytest.mark.parametrize("bytes_", [0, 1, 63, 64, 1_000_003])
def test_memory_is_aligned(kernels: Kernels, bytes_: int) -> None:
    address = kernels.library.pyapp_allocate(bytes_)
    assert address and address % 64 == 0
    kernels.library.pyapp_free(address)


def test_memory_refuses_what_there_is_not(kernels: Kernels) -> None:
    assert not kernels.library.pyapp_allocate(-1)
    kernels.library.pyapp_free(None)


@pytest.mark.parametrize("index", [-1, len(HEADER), 2**30])
def test_unknown_kernel_is_refused(kernels: Kernels, index: int) -> None:
    assert kernels.run_all([Launch(index)]) == BAD_ARGUMENT


def test_failure_names_the_record(kernels: Kernels) -> None:
    y, w = np.zeros((1, 4), np.float32), np.ones((5, 4), np.float32)
    records = [
        kernels.record(
            "embedding_copy",
            y=y,
            w=w,
            ids=np.array([i], np.int32),
            tokens=1,
            columns=4,
            vocabulary=5,
            y_stride=4,
            element_bytes=4,
            id_bytes=4,
        )  # fmt: skip
        for i in (4, 0, 5, -1)
    ]
    assert kernels.run_all(records[:2]) == OK
    assert kernels.run_all(records) == 2 << 8 | INDEX_RANGE
    assert kernels.run_all([]) == OK


def test_cancel_stops_at_the_next_record(kernels: Kernels) -> None:
    y = np.zeros(8, np.float32)
    kernels.library.pyapp_cancel(1)
    try:
        assert kernels.run("fill_f32", y=y, count=8, value=2) == CANCELLED
    finally:
        kernels.library.pyapp_cancel(0)
    assert not y.any()
    assert kernels.run("fill_f32", y=y, count=8, value=2) == OK
    assert (y == 2).all()


@pytest.mark.parametrize("wish, given", [(-3, 1), (0, 1), (1, 1), (5, 5), (1000, 64)])
def test_number_of_threads_is_held_to_its_range(kernels: Kernels, wish: int, given: int) -> None:
    before = kernels.library.pyapp_threads()
    kernels.library.pyapp_set_threads(wish)
    assert kernels.library.pyapp_threads() == given
    kernels.library.pyapp_set_threads(before)


def test_results_do_not_depend_on_the_number_of_threads(kernels: Kernels) -> None:
    before = kernels.library.pyapp_threads()
    digests = set()
    for threads in (1, 2, 3, 7, 2, 1, 5):
        kernels.library.pyapp_set_threads(threads)
        for _ in range(20):
            for rows in (1, 3, 20):
                digests.add((rows, hashlib.sha256(linear(kernels, rows).tobytes()).digest()))
    kernels.library.pyapp_set_threads(before)
    assert len(digests) == 3


def test_small_work_gives_the_same(kernels: Kernels) -> None:
    assert (linear(kernels, work=0) == linear(kernels, work=10**9)).all()


def test_many_callers_at_once(kernels: Kernels) -> None:
    expected = linear(kernels).tobytes()
    wrong = []

    def call() -> None:
        wrong.extend(1 for _ in range(100) if linear(kernels).tobytes() != expected)

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert not any(caller.is_alive() for caller in callers) and not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_pool_works_in_a_forked_child(kernels: Kernels) -> None:
    before = kernels.library.pyapp_threads()
    kernels.library.pyapp_set_threads(3)
    expected = linear(kernels).tobytes()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if linear(kernels).tobytes() == expected else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    kernels.library.pyapp_set_threads(before)
    assert os.waitstatus_to_exitcode(status) == 0
    assert linear(kernels).tobytes() == expected


@pytest.mark.native_only
def test_denormals_are_flushed_only_within() -> None:
    """In every thread; NumPy's own arithmetic is left alone."""
    from pyapp.engine import flush_denormals, get_num_threads, ops, set_num_threads

    tiny = np.full(1 << 18, 1e-40, np.float32)
    threads = get_num_threads()
    try:
        for count in (1, 4):
            set_num_threads(count)
            x = ops.from_numpy(tiny)
            with flush_denormals():
                assert (ops.add(x, x).numpy() == 0).all()
                assert (tiny + tiny > 0).all()
            assert (ops.add(x, x).numpy() == tiny + tiny).all()
    finally:
        set_num_threads(threads)
