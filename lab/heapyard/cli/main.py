# SPDX-License-Identifier: Apache-2.0
"""The entry point: finds the verb, loads it, and turns every error into one sentence and an exit code."""

from __future__ import annotations

import atexit
import importlib
import io
import os
import sys
from typing import NoReturn

import click

from ..execute.loop.signals import ignore_signals, interrupt_on_signals
from ..model.errors import EXIT_FAILED, EXIT_INTERRUPTED, HeapyardError, UsageError
from .verbs import VERBS

EXIT_PIPE = 141  # what a shell reports of a program that SIGPIPE ended

_debugging = False


class LazyGroup(click.Group):
    """A group whose commands are named in a table and imported only when called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        return importlib.import_module(VERBS[cmd_name][0]).command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            from .suggest import unknown

            raise unknown("verb", args[0], VERBS, "heapyard --help lists the verbs.")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, line) for verb, (_, line) in VERBS.items()])


def _tell_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    from ..catalog.build_facts import version_line

    click.echo(version_line())
    ctx.exit()


@click.group(
    cls=LazyGroup,
    subcommand_metavar="VERB [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with: heapyard compare, or heapyard compare -- YOUR COMMAND. Every verb explains itself with --help.",
)
@click.option("-V", "--version", is_flag=True, is_eager=True, expose_value=False, callback=_tell_version,
              help="Show the version and which build this is.")
@click.option("--debug", is_flag=True, envvar="HEAPYARD_DEBUG", help="Show the traceback of an unexpected error.")
def cli(debug: bool) -> None:
    """Say which memory allocator suits a program, by how much, and how sure that is."""
    global _debugging
    _debugging = debug


def run(arguments: list[str] | None = None) -> NoReturn:
    """Carry out a command line (default: this process's) and exit with its code; see docs/guide.md for the codes."""
    own_process = arguments is None
    arguments = sys.argv[1:] if arguments is None else arguments
    if own_process:
        interrupt_on_signals()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a locale without ± gets a question mark, not a traceback
    try:
        code = _carry_out(arguments)
        sys.stdout.flush()
    except HeapyardError as error:
        _say(error.message, error.remedy)
        code = error.exit_code
    except click.ClickException as error:
        code = _click_error(error)
    except click.exceptions.Exit as ended:
        code = ended.exit_code
    except KeyboardInterrupt:
        _say("interrupted")
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has left; the interpreter must not complain again while it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = EXIT_PIPE
    except OSError as error:
        from .crash import on_disk

        _show_traceback()
        _say(on_disk(error))
        code = EXIT_FAILED
    except Exception as error:
        from .crash import keep_traceback

        _show_traceback()
        _say(
            f"unexpected {type(error).__name__}: {' '.join(str(error).split()) or 'no message'}",
            keep_traceback(error, arguments),
        )
        code = EXIT_FAILED
    atexit.register(ignore_signals)  # while the interpreter shuts down
    if own_process and code == EXIT_INTERRUPTED:
        # CPython ends by SIGINT, whatever the exit code, if KeyboardInterrupt ever passed through code made by exec().
        _flush()
        os._exit(EXIT_INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


def _carry_out(arguments: list[str]) -> object:
    """What the verb's function returned. Click's own `main` would answer Ctrl-C and closed pipes in its own way."""
    for word in arguments:
        if any("\ud800" <= letter <= "\udfff" for letter in word):  # how Python hands over bytes that are no text
            raise UsageError(f"the argument {word!a} is not UTF-8", remedy="Put the command into a script, or rename the file.")
    if "_HEAPYARD_COMPLETE" in os.environ:
        cli.main(arguments, prog_name="heapyard")  # a shell asks for completions
    with cli.make_context("heapyard", list(arguments)) as context:
        return cli.invoke(context)


def _say(sentence: str, remedy: str | None = None) -> None:
    text = f"heapyard: {sentence}"
    if remedy:
        text += f"\n  {remedy}"
    try:
        click.echo(text, err=True)
    except OSError:
        pass  # standard error is gone; the exit code still tells


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            pass  # nobody reads it any more


def _click_error(error: click.ClickException) -> int:
    """Click's own complaints, as one sentence that names the verb whose --help explains."""
    context = getattr(error, "ctx", None)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.ctx.get_help())
        return 0
    path = context.command_path if context else "heapyard"
    message = error.format_message().rstrip(".")
    _say(message[:1].lower() + message[1:], f"{path} --help explains the options.")
    return error.exit_code


def _show_traceback() -> None:
    if _debugging:
        import traceback

        traceback.print_exc()
