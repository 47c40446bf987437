/* The program. Everything that takes time is left to the command that needs it: `cairn version` has 3 ms. */
#include <fcntl.h>
#include "cli/cli.h"

/* A program that was started with a closed 0, 1 or 2 must not write messages into the first file that it opens. */
static void open_standard_fds(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) < 0)
			_exit(CLI_ENVIRONMENT);
}

int main(int argc, char **argv)
{
	struct cli cli;
	int code;

	open_standard_fds();
	cli_init(&cli, stdout, stderr);
	code = cli_main(&cli, argc, argv);
	cli_deinit(&cli);
	return code;
}
