/* train: whose the lines are that mpirun prints, however they come in pieces. */
#include <stdlib.h>
#include <string.h>
#include "steps/train/gang.h"
#include "unit.h"

#define RANKS 4

static const struct {
	const char *given, *want; /* wanted: rank:line| */
} cases[] = {
	{ "[1,0]<stdout>:a\n[1,1]<stdout>:b\n", "0:a|1:b|" },
	{ "[1,0]<stdout>:a\nb\n", "0:a|-1:b|" }, /* without a tag: mpirun's own */
	/* A line in two pieces, its end alone, another's in its midst. */
	{ "[1,0]<stdout>:loss=1 [1,0]<stdout>:step=2\n", "0:loss=1 step=2|" },
	{ "[1,0]<stdout>:step=8[1,0]<stdout>:\n[1,0]<stdout>:c\n", "0:step=8|0:c|" },
	{ "[1,0]<stdout>:ab[1,3]<stdout>:xy\n[1,0]<stdout>:cd\n", "3:xy|0:abcd|" },
	{ "[1,0]<stdout>:ab[1,3]<stdout>:xy[1,0]<stdout>:\n[1,3]<stdout>:z\n", "0:ab|3:xyz|" },
	/* The streams of one rank aren't mixed. */
	{ "[1,2]<stdout>:out[1,2]<stderr>:err\n[1,2]<stdout>:put\n", "2:err|2:output|" },
	{ "[1,2]<stddiag>:d\n", "2:d|" },
	/* What has no end is a line, too. */
	{ "[1,1]<stdout>:end", "1:end|" },
	{ "[1,1]<stdout>:e[1,0]<stdout>:f", "0:f|1:e|" }, /* by rank */
	{ "mpirun noticed", "-1:mpirun noticed|" },
	{ "[1,0]<stdout>:", "" },
	{ "[1,0]<stdout>:\n\n", "0:|-1:|" },
	/* What only looks like a tag. */
	{ "[1,0]<stdout>:[1,2] is mine\n", "0:[1,2] is mine|" },
	{ "[1,0]<stdout>:[1,4]<stdout>:no such rank\n", "0:[1,4]<stdout>:no such rank|" },
	{ "[1,0]<stdout>:[1,1]<stdin>:[\n", "0:[1,1]<stdin>:[|" },
	{ "[1,0]<stdout>:[1,-1]<stdout>:[ 1, 2]<stdout>:\n", "0:[1,-1]<stdout>:[ 1, 2]<stdout>:|" },
	{ "[1,0]<stdout>:[1,1]<stdout>", "0:[1,1]<stdout>|" },
	{ "[1,0]<stdout>:[[[1,1]<stdout>:x\n[1,0]<stdout>:y", "1:x|0:[[y|" },
	{ "[99999999999,99999999999]<stdout>:x\n", "-1:[99999999999,99999999999]<stdout>:x|" },
};

static void note(void *arg, int rank, const char *line, size_t n)
{
	str_addf(arg, "%d:%.*s|", rank, (int)n, line);
}

static void check(size_t i, size_t step)
{
	struct str got = { 0 };
	struct mpi_output *o = mpi_output_new(RANKS, note, &got);
	size_t n = strlen(cases[i].given);

	for (size_t at = 0; at < n; at += step)
		mpi_output_add(o, cases[i].given + at, MIN(step, n - at));
	mpi_output_end(o);
	mpi_output_free(o);
	assert_string_equal(got.s ? got.s : "", cases[i].want);
	str_deinit(&got);
}

static void test_lines(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		for (size_t step = 1; step <= strlen(cases[i].given); step++)
			check(i, step);
}

struct sum {
	size_t lines, bytes, longest;
};

static void measure(void *arg, int rank, const char *line, size_t n)
{
	struct sum *s = arg;

	assert_int_equal(rank, 1);
	assert_true(n == 0 || (line[0] == 'x' && line[n - 1] == 'x'));
	s->lines++;
	s->bytes += n;
	s->longest = MAX(s->longest, n);
}

/* A long line has a tag every few thousand bytes; what no line can hold comes in pieces of the same
 * rank. */
static void test_long(void **state)
{
	static char piece[4000];
	struct sum sum = { 0 };
	struct mpi_output *o = mpi_output_new(RANKS, measure, &sum);

	memset(piece, 'x', sizeof(piece));
	for (int i = 0; i < 100; i++) {
		mpi_output_add(o, "[1,1]<stdout>:", 14);
		mpi_output_add(o, piece, sizeof(piece));
	}
	mpi_output_add(o, "\n", 1);
	mpi_output_end(o);
	mpi_output_free(o);
	assert_int_equal(sum.bytes, 400000);
	assert_int_equal(sum.longest, LINE_MAX_BYTES);
	assert_int_equal(sum.lines, 400000 / LINE_MAX_BYTES + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
