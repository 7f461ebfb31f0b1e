# SPDX-License-Identifier: Apache-2.0
"""Verbs that take a command of the user's own after `--`."""

from __future__ import annotations

import click


class WithCommand(click.Command):
    """Everything after the first `--` is the user's command, word for word: `ctx.meta["command"]`, None without one."""

    usage = "[OPTIONS] [NAME]... [-- COMMAND [ARGUMENT]...]"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["command"] = None
        if "--" in args:
            at = args.index("--")
            ctx.meta["command"], args = tuple(args[at + 1 :]), args[:at]
        return super().parse_args(ctx, args)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path, self.usage)
