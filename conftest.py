# SPDX-License-Identifier: GPL-2.0
"""What all tests start from."""

import signal

# Sent to commands by tests; a command that inherits that they are ignored would ignore them.
SENT = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGHUP: signal.SIG_DFL,
    signal.SIGQUIT: signal.SIG_DFL,
}


def pytest_configure() -> None:
    """Undo what a shell does to commands in the background, and nohup."""
    for number, handler in SENT.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
