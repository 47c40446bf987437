/* The program. Everything that takes time is left to the command that needs it: `cairn version` has
 * 3 ms. */
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include "base/os/process/process.h"
#include "cli/cli.h"
#include "steps/all.h"

/* Of malloc(): a thread has one to itself otherwise, and what is free in one is of no use to
 * others. At 10,000 tasks on a cluster that was 4 MB of 52. */
#define ARENAS 2

/* A program that was started with a closed 0, 1 or 2 must not write messages into the first file
 * that it opens. */
static void open_standard_fds(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) < 0)
			_exit(CLI_ENVIRONMENT);
}

/* Whoever started us may ignore the ends of his children. Ours would be reaped by the kernel then,
 * and waited for in vain. */
static void expect_children(void)
{
	signal(SIGCHLD, SIG_DFL); /* lint: signal because a default needs no handler */
}

int main(int argc, char **argv)
{
	/* By which the engine finds what its tasks started (runners/local.c), should we be one of
	 * those. */
	static const char *const markers[] = { "CAIRN_ATTEMPT=", "CAIRN_ENGINE=", NULL };
	struct cli cli;
	int code;

	open_standard_fds();
	expect_children();
	process_hide(markers);
#ifdef CAIRN_STATIC
	if (steps_are_called(argc, argv))
		return steps_main(argc, argv);
#endif
	mallopt(M_ARENA_MAX, ARENAS);
	cli_init(&cli, stdout, stderr);
	code = cli_main(&cli, argc, argv);
	cli_deinit(&cli);
	return code;
}
