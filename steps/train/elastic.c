/* steps/train/elastic.c — ranks that torchrun starts, on nodes that come and go.
 *
 * On each node the launcher starts torchrun, and torchrun starts and ends the ranks: nodes meet in
 * the store of its c10d rendezvous, which the first node's torchrun keeps, agree on a world, and do
 * so again when one is lost or another one waits to come in. A rank's number changes with the
 * world. So torchrun doesn't call the step's command, but this program (elastic_rank_main()), which
 * becomes the command after it has done two things.
 *
 * It writes to the pipe of its output which rank it is. The launcher made one pipe for each rank of
 * the node and keeps both ends; the rank opens its end by the launcher's descriptor
 * (CAIRN_GANG_OUTPUTS: "/proc/PID/fd/FD ..."), because torchrun passes none on. No process
 * stands between the rank and the launcher, and a rank that is killed leaves the pipe to the next
 * one.
 *
 * And it refuses to be rank 0 on another node than the first: a gang's outputs and metrics come
 * from there. torchrun sorts nodes by their host names, and those of a Job's pods end with the
 * node's number (torch/distributed/elastic/rendezvous/dynamic_rendezvous.py,
 * _mark_rendezvous_complete), so this doesn't happen unless something else gives the pods their
 * names.
 *
 * The ranks are torchrun's children; what they inherit, they got from environment.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "base/text/text.h"
#include "steps/train/gang.h"

/* Begins what a rank writes to the launcher; no line of text holds it. */
#define MARK     "\0cairn rank "
#define MARK_LEN (sizeof(MARK) - 1)

/* In the launcher. */

void elastic_add_outputs(const struct gang *g, struct str *out)
{
	for (unsigned i = 0; i < g->members.n; i++)
		if (g->members.v[i].role == ROLE_RANK)
			str_addf(out, "%s/proc/%d/fd/%d", out->len ? " " : "", (int)getpid(),
				 g->members.v[i].write_fd);
}

const char *const *elastic_command(const struct gang *g, struct arena *arena)
{
	VEC(const char *) v = { 0 };
	const char *const *all;

	VEC_PUSH(&v, "torchrun");
	VEC_PUSH(&v, "--no_python");
	VEC_PUSH(&v, gang_own_program(arena));
	VEC_PUSH(&v, ELASTIC_RANK);
	for (const char *const *word = g->args->command; *word; word++)
		VEC_PUSH(&v, *word);
	VEC_PUSH(&v, NULL);
	all = arena_memdup(arena, v.v, v.n * sizeof(*v.v));
	VEC_FREE(&v);
	return all;
}

bool elastic_read_line(const char *line, size_t *n, unsigned *ret_rank)
{
	const char *mark = memmem(line, *n, MARK, MARK_LEN);
	_cleanup_(freep) char *number = NULL;
	int64_t rank;

	if (!mark)
		return true;
	number = xstrndup(mark + MARK_LEN, *n - (size_t)(mark - line) - MARK_LEN);
	if (!text_parse_int(number, &rank) || rank < 0 || rank > INT32_MAX)
		return true; /* the program's own bytes */
	*ret_rank = (unsigned)rank;
	*n = (size_t)(mark - line); /* the last words of an earlier rank, without their end */
	return *n > 0;
}

/* In the rank. */

static int64_t number_of(const char *name)
{
	const char *text = getenv(name);
	int64_t n;

	return text && text_parse_int(text, &n) && n >= 0 && n <= INT32_MAX ? n : -1;
}

/* -1 with errno: there is no such pipe, or the launcher is gone. */
static int open_output(const char *outputs, int64_t local)
{
	_cleanup_(freep) char *path = NULL;

	for (; local > 0 && *outputs; local--)
		outputs += strcspn(outputs, " ") + (strchr(outputs, ' ') != NULL);
	path = xstrndup(outputs, strcspn(outputs, " "));
	return open(path, O_WRONLY | O_CLOEXEC);
}

int elastic_rank_main(int argc, char **argv)
{
	const char *outputs = getenv("CAIRN_GANG_OUTPUTS");
	int64_t rank = number_of("RANK"), local = number_of("LOCAL_RANK");
	_cleanup_(str_deinit) struct str word = { 0 };
	int fd;

	if (argc < 1 || !outputs || rank < 0 || local < 0) {
		fprintf(stderr, "usage: " ELASTIC_RANK " COMMAND...: called by torchrun\n");
		return 2;
	}
	if (rank == 0 && number_of("CAIRN_GANG_NODE") != 0) {
		fprintf(stderr,
			"train: error: torchrun gave rank 0 to node %s; outputs come from "
			"node 0. It orders nodes by host name: leave those to the Job.\n",
			getenv("CAIRN_GANG_NODE"));
		return 2;
	}
	fd = open_output(outputs, local);
	str_addn(&word, MARK, MARK_LEN);
	str_addf(&word, "%lld\n", (long long)rank);
	if (fd < 0 || fs_write_all(fd, word.s, word.len, NULL) < 0 || dup2(fd, STDOUT_FILENO) < 0 ||
	    dup2(fd, STDERR_FILENO) < 0) {
		perror("train: the launcher's pipe");
		return 2;
	}
	execvp(argv[0], argv);
	fprintf(stderr, "%s: %s\n", argv[0], strerrordesc_np(errno));
	return errno == ENOENT ? 127 : 126;
}
