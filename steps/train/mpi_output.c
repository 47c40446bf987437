/* steps/train/mpi_output.c — splits the output of `mpirun --tag-output` into lines of its ranks.
 *
 * mpirun puts a tag, "[1,0]<stdout>:", before each piece that it read from a rank, and again after
 * each end of a line in it (Open MPI 4.1, orte/mca/iof/base/iof_base_output.c). A piece is what one
 * read() returned: a line that a program writes in two pieces, or a long line, has tags in its
 * midst, and other ranks' tags between. So a tag names the rank of the bytes after it, until the
 * next tag or the end of the line. Bytes after no tag are mpirun's own.
 *
 * There is a speaker for each rank and stream, made at its first output, with the line that isn't
 * ended yet. `now` is the speaker of the current bytes. `held` keeps what may be the beginning of a
 * tag until more bytes decide it (tag_at()), never more than TAG_MAX bytes after a call.
 *
 * A line that is longer than LINE_MAX_BYTES comes out in pieces, so memory is bounded. If a program
 * itself prints something like a tag, it counts as one. The gang's thread calls it.
 */
#include <stdio.h>
#include <string.h>
#include "steps/train/gang.h"

#define TAG_MAX 34 /* "[4294967295,4294967295]<stddiag>:" */

static const char *const streams[] = { "stdout", "stderr", "stddiag" };

struct speaker {
	int rank;
	struct str line; /* the beginning of a line that isn't ended yet */
};

struct mpi_output {
	unsigned n_ranks;
	void (*fn)(void *arg, int rank, const char *line, size_t n);
	void *arg;
	struct str held; /* what may be the beginning of a tag */
	struct speaker own, *now;
	struct speaker **speakers; /* by rank and stream; NULL: no output yet */
	size_t n_speakers;
};

struct mpi_output *mpi_output_new(unsigned n_ranks,
				  void (*fn)(void *arg, int rank, const char *line, size_t n),
				  void *arg)
{
	struct mpi_output *o = xcalloc(1, sizeof(*o));

	*o = (struct mpi_output){ .n_ranks = n_ranks,
				  .fn = fn,
				  .arg = arg,
				  .own.rank = -1,
				  .n_speakers = n_ranks * ARRAY_LEN(streams) };
	o->speakers = xcalloc(o->n_speakers, sizeof(struct speaker *));
	o->now = &o->own;
	return o;
}

void mpi_output_free(struct mpi_output *o)
{
	if (!o)
		return;
	for (size_t i = 0; i < o->n_speakers; i++)
		if (o->speakers[i]) {
			str_deinit(&o->speakers[i]->line);
			free(o->speakers[i]);
		}
	free(o->speakers);
	str_deinit(&o->own.line);
	str_deinit(&o->held);
	free(o);
}

static void say(struct mpi_output *o, struct speaker *s)
{
	o->fn(o->arg, s->rank, s->line.len ? s->line.s : "", s->line.len);
	str_reset(&s->line);
}

static void add(struct mpi_output *o, const char *bytes, size_t n)
{
	while (n) {
		size_t some = MIN(n, LINE_MAX_BYTES - o->now->line.len);

		str_addn(&o->now->line, bytes, some);
		bytes += some;
		n -= some;
		if (o->now->line.len >= LINE_MAX_BYTES)
			say(o, o->now);
	}
}

/* The length of a tag at the beginning of these bytes; 0: there is none; -1: more bytes are needed
 * to tell. */
static int tag_at(const struct mpi_output *o, const char *bytes, size_t n, unsigned *ret_rank,
		  size_t *ret_stream)
{
	char text[TAG_MAX + 1], stream[8];
	size_t span;
	int len = 0;

	snprintf(text, sizeof(text), "%.*s", (int)MIN(n, TAG_MAX), bytes);
	span = strspn(text, "[]<>,:0123456789abcdefghijklmnopqrstuvwxyz"); /* sscanf() would accept
									      blanks and signs */
	if (sscanf(text, "[%*10u,%10u]<%7[a-z]>:%n", ret_rank, stream, &len) < 2 || len == 0 ||
	    (size_t)len > span)
		return span == n && n < TAG_MAX ? -1 : 0;
	for (size_t i = 0; i < ARRAY_LEN(streams); i++)
		if (*ret_rank < o->n_ranks && str_eq(stream, streams[i])) {
			*ret_stream = i;
			return len;
		}
	return 0;
}

/* Takes one thing from the front: plain bytes, the end of a line, or a tag. Returns its length; 0:
 * more bytes are needed. */
static size_t take_one(struct mpi_output *o, const char *bytes, size_t n, bool is_all)
{
	size_t plain = 0, stream = 0;
	unsigned rank = 0;
	int len;

	while (plain < n && bytes[plain] != '\n' && bytes[plain] != '[')
		plain++;
	add(o, bytes, plain);
	if (plain)
		return plain;
	if (*bytes == '\n') {
		say(o, o->now);
		o->now = &o->own;
		return 1;
	}
	len = tag_at(o, bytes, n, &rank, &stream);
	if (len > 0) {
		struct speaker **s = &o->speakers[rank * ARRAY_LEN(streams) + stream];

		if (!*s) /* each stream of a rank has its own lines */
			*s = xcalloc(1, sizeof(**s));
		(*s)->rank = (int)rank;
		o->now = *s;
		return (size_t)len;
	}
	if (len < 0 && !is_all)
		return 0;
	add(o, bytes, 1); /* an ordinary bracket */
	return 1;
}

static void take(struct mpi_output *o, bool is_all)
{
	size_t at = 0, n = 1;

	while (at < o->held.len && n) {
		n = take_one(o, o->held.s + at, o->held.len - at, is_all);
		at += n;
	}
	o->held.len -= at;
	if (at)
		memmove(o->held.s, o->held.s + at, o->held.len);
}

void mpi_output_add(struct mpi_output *o, const char *bytes, size_t n)
{
	str_addn(&o->held, bytes, n);
	take(o, false);
}

void mpi_output_end(struct mpi_output *o)
{
	take(o, true);
	for (size_t i = 0; i < o->n_speakers; i++)
		if (o->speakers[i] && o->speakers[i]->line.len)
			say(o, o->speakers[i]);
	if (o->own.line.len)
		say(o, &o->own);
}
