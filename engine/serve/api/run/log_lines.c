/* engine/serve/api/run/log_lines.c — where the lines of a log are, and ranges of it.
 *
 * A log of gigabytes is read once, as a stream: its index has the offset of every EVERYth line, the
 * number of lines, and the first line that looks like an error. The index is kept; that of a log
 * that grows goes on where it was. Ranges are read where they are. The lines of one rank of a
 * distributed step have an index of their own, with their places in the whole log.
 *
 * Invariants: an index belongs to an attempt, or, where only the store knows the execution, to the
 * log's digest; when the log is shorter than its index, the index begins anew. One index is made at
 * a time. Memory: INDEXES_MAX indexes with OFFSETS_MAX offsets each at most; a longer log has an
 * offset for every second EVERYth line, and so on.
 *
 * Threads: the pool's. Not here: searching (log_search.c).
 */
#include "serve/api/run/log_lines.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "base/os/fs.h"
#include "run/task/log_part.h"

#define EVERY        1000
#define INDEXES_MAX  16
#define OFFSETS_MAX  100000
#define CHUNK        (1 * MIB)
#define ERRORS_UNTIL (256 * MIB) /* the first error is looked for up to here */
#define RANK_READ    (64 * MIB)  /* for one range of a rank's lines */

struct log_index {
	const struct project *project;
	int64_t attempt;
	struct digest digest;  /* without an attempt */
	int64_t rank;          /* whose lines; -1: all */
	struct log_mark mark;  /* at the beginning of these */
	uint64_t size;         /* bytes that it covers */
	uint64_t lines;        /* line ends in them */
	uint64_t every;        /* lines between two offsets */
	VEC(uint64_t) offsets; /* of lines 0, every, 2 × every, … */
	bool has_error;
	uint64_t error_at, error_line;
	/* Of a rank's: where the line that is being read begins, and what of it is known. */
	uint64_t line_at;
	size_t matched;
	enum { LINE_BEGINS, LINE_WANTED, LINE_OTHER } line;
	struct log_index *next;
};

struct log_indexes {
	pthread_mutex_t lock;    /* held while an index is read or made */
	struct log_index *first; /* the last used one first */
};

struct log_indexes *api_log_indexes_new(void)
{
	struct log_indexes *v = xcalloc(1, sizeof(*v));

	pthread_mutex_init(&v->lock, NULL);
	return v;
}

static void free_index(struct log_index *x)
{
	VEC_FREE(&x->offsets);
	free(x);
}

void api_log_indexes_free(struct log_indexes *v)
{
	struct log_index *next;

	if (!v)
		return;
	for (struct log_index *x = v->first; x; x = next) {
		next = x->next;
		free_index(x);
	}
	pthread_mutex_destroy(&v->lock);
	free(v);
}

/* Making. */

static void begin(struct log_index *x)
{
	x->size = x->lines = 0;
	x->every = EVERY;
	x->has_error = false;
	x->line_at = x->matched = 0;
	x->line = LINE_BEGINS;
	x->offsets.n = 0;
	VEC_PUSH(&x->offsets, 0);
}

/* The line with the number x->lines begins at `at`. */
static void add_offset(struct log_index *x, uint64_t at)
{
	if (x->lines % x->every)
		return;
	if (x->offsets.n == OFFSETS_MAX) {
		x->every *= 2;
		x->offsets.n = (x->offsets.n + 1) / 2;
		for (size_t i = 0; i < x->offsets.n; i++)
			x->offsets.v[i] = x->offsets.v[2 * i];
		if (x->lines % x->every)
			return;
	}
	VEC_PUSH(&x->offsets, at);
}

/* The first place in these bytes that looks like an error; NULL: none. */
static const char *find_error(const char *bytes, size_t n)
{
	static const char *const marks[] = { "Error", "ERROR",  "error:",     "Traceback (",
					     "FATAL", "fatal:", "Exception:", "panic:" };
	const char *first = NULL;

	for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
		const char *at = memmem(bytes, first ? (size_t)(first - bytes) : n, marks[i],
					strlen(marks[i]));

		first = at ? at : first;
	}
	return first;
}

static void add_chunk(struct log_index *x, const char *bytes, size_t n)
{
	const char *error = x->has_error || x->size > ERRORS_UNTIL ? NULL : find_error(bytes, n);
	const char *at = bytes, *end = bytes + n, *line = bytes;

	while ((at = memchr(at, '\n', (size_t)(end - at)))) {
		if (error && error < at) {
			x->has_error = true;
			x->error_at = x->size + (uint64_t)(line - bytes);
			x->error_line = x->lines;
			error = NULL;
		}
		line = ++at;
		x->lines++;
		add_offset(x, x->size + (uint64_t)(at - bytes));
	}
	if (error) { /* in the last line, which may go on */
		x->has_error = true;
		x->error_at = x->size + (uint64_t)(line - bytes);
		x->error_line = x->lines;
	}
	x->size += n;
}

static void rank_begins(struct log_index *x)
{
	x->line = LINE_WANTED;
	if (x->lines)
		add_offset(x, x->line_at);
	x->lines++;
}

/* A mark may begin in one chunk and end in the next. */
static void add_chunk_of_rank(struct log_index *x, const char *bytes, size_t n)
{
	const char *at = bytes, *end = bytes + n;

	while (at < end) {
		const char *eol, *error;

		if (x->line == LINE_BEGINS) {
			if (*at != x->mark.s[x->matched])
				x->line = LINE_OTHER;
			else if (at++, ++x->matched == x->mark.len)
				rank_begins(x);
			continue;
		}
		eol = memchr(at, '\n', (size_t)(end - at));
		error = x->line != LINE_WANTED || x->has_error || x->size > ERRORS_UNTIL
				? NULL
				: find_error(at, (size_t)((eol ? eol : end) - at));
		if (error) {
			x->has_error = true;
			x->error_at = x->line_at;
			x->error_line = x->lines - 1;
		}
		at = eol ? eol + 1 : end;
		if (eol) {
			x->line = LINE_BEGINS;
			x->matched = 0;
			x->line_at = x->size + (uint64_t)(at - bytes);
		}
	}
	x->size += n;
}

/* With the lock. */
static int go_on(struct log_index *x, const struct log_source *log, struct err *err)
{
	_cleanup_(freep) char *buf = xmalloc(CHUNK);

	if (log->size < x->size)
		begin(x);
	while (x->size < log->size) {
		ssize_t n =
			fs_read_at(log->fd, buf, MIN(CHUNK, log->size - x->size), (off_t)x->size);

		if (n < 0)
			return err_errno(err, "cannot read the log");
		if (n == 0)
			break;
		if (x->mark.len)
			add_chunk_of_rank(x, buf, (size_t)n);
		else
			add_chunk(x, buf, (size_t)n);
	}
	return 0;
}

static bool is_of(const struct log_index *x, const struct project *p, const struct log_source *log,
		  int64_t rank)
{
	return x->project == p && x->attempt == log->attempt && x->rank == rank &&
	       (log->attempt || digest_eq(&x->digest, &log->log.digest));
}

/* With the lock: the known or a new one, moved to the front. */
static struct log_index *take(struct log_indexes *v, const struct project *p,
			      const struct log_source *log, int64_t rank)
{
	struct log_index **at = &v->first, *x;
	size_t n = 0;

	while (*at && !is_of(*at, p, log, rank)) {
		if (++n == INDEXES_MAX - 1 && (*at)->next) { /* the last used one makes room */
			free_index((*at)->next);
			(*at)->next = NULL;
		}
		at = &(*at)->next;
	}
	x = *at;
	if (x) {
		*at = x->next;
	} else {
		x = xcalloc(1, sizeof(*x));
		x->project = p;
		x->attempt = log->attempt;
		x->digest = log->log.digest;
		x->rank = rank;
		log_mark_init(&x->mark, rank);
		begin(x);
	}
	x->next = v->first;
	v->first = x;
	return x;
}

/* An index that covers the log as it was opened, with the lock held; NULL: answered, and not
 * held. */
static struct log_index *open_index(struct api *a, const struct log_source *log, int64_t rank)
{
	struct log_indexes *v = a->d->http.log_indexes;
	struct err err = { 0 };
	struct log_index *x;

	pthread_mutex_lock(&v->lock);
	x = take(v, a->project, log, rank);
	if (go_on(x, log, &err) == 0)
		return x;
	pthread_mutex_unlock(&v->lock);
	web_problem_err(a->x, &err);
	return NULL;
}

static void close_index(struct api *a)
{
	pthread_mutex_unlock(&a->d->http.log_indexes->lock);
}

void log_mark_init(struct log_mark *m, int64_t rank)
{
	m->len = rank < 0 ? 0
			  : (size_t)snprintf(m->s, sizeof(m->s), "[rank %lld] ", (long long)rank);
}

bool api_log_rank(struct api *a, int64_t *ret)
{
	uint64_t rank = 0;

	if (!api_uint(a, "rank", 0, UINT32_MAX, &rank))
		return false;
	*ret = web_param(a->x, "rank") ? (int64_t)rank : -1;
	return true;
}

bool api_log_line_near(struct api *a, const struct log_source *log, int64_t rank, uint64_t at,
		       struct log_line *ret)
{
	struct log_index *x = open_index(a, log, rank);

	if (!x)
		return false;
	for (size_t i = 0; i < x->offsets.n && x->offsets.v[i] <= at; i++)
		*ret = (struct log_line){ i * x->every, x->offsets.v[i] };
	close_index(a);
	return true;
}

void api_run_log_index(struct api *a)
{
	struct log_source log;
	struct log_index *x;
	int64_t rank;

	if (!api_log_rank(a, &rank) || !api_log_open(a, &log))
		return;
	x = open_index(a, &log, rank);
	if (x) {
		json_t *offsets = json_array();

		for (size_t i = 0; i < x->offsets.n; i++)
			json_array_append_new(offsets, json_integer((json_int_t)x->offsets.v[i]));
		web_answer_json(a->x, 200,
				json_pack("{s:I, s:I, s:I, s:o, s:o, s:b}", "bytes",
					  (json_int_t)x->size, "lines", (json_int_t)x->lines,
					  "every", (json_int_t)x->every, "offsets", offsets,
					  "first_error",
					  x->has_error ? json_pack("{s:I, s:I}", "offset",
								   (json_int_t)x->error_at, "line",
								   (json_int_t)x->error_line)
						       : json_null(),
					  "live", log.live));
		close_index(a);
	}
	log_source_close(&log);
}

/* Ranges. */

static void answer_part(struct api *a, const struct log_source *log, uint64_t from,
			uint64_t covered, const char *text, size_t n)
{
	web_answer_json(a->x, 200,
			json_pack("{s:I, s:I, s:I, s:b, s:o}", "offset", (json_int_t)from, "bytes",
				  (json_int_t)covered, "total", (json_int_t)log->size, "live",
				  log->live, "text", api_lossy_text(text, n)));
}

struct rank_range {
	const struct log_source *log;
	struct log_part part;
	uint64_t at, until, bytes, lines;
	struct str text;
};

/* The end of the last wanted line in what was kept, or all of it. */
static size_t cut_lines(struct rank_range *r, const char *buf, size_t n)
{
	const char *at = buf;

	while (r->lines && (at = memchr(at, '\n', (size_t)(buf + n - at)))) {
		at++;
		if (--r->lines == 0)
			return (size_t)(at - buf);
	}
	return n;
}

/* Line by line, so that it is known which bytes of the log the answer covers. */
static int read_rank(struct rank_range *r, struct err *err)
{
	_cleanup_(freep) char *buf = xmalloc(CHUNK);

	while (r->at < r->until && r->lines && r->text.len < r->bytes) {
		ssize_t n = fs_read_at(r->log->fd, buf, MIN(CHUNK, r->until - r->at), (off_t)r->at);
		size_t used = 0;

		if (n < 0)
			return err_errno(err, "cannot read the log");
		if (n == 0)
			break;
		while (used < (size_t)n && r->lines && r->text.len < r->bytes) {
			char *line = buf + used, *eol = memchr(line, '\n', (size_t)n - used);
			size_t len = eol ? (size_t)(eol + 1 - line) : (size_t)n - used, kept;

			used += len;
			kept = log_part_keep(&r->part, line, len);
			str_addn(&r->text, line, cut_lines(r, line, kept));
		}
		r->at += used;
	}
	return 0;
}

static void answer_rank(struct api *a, const struct log_source *log, int64_t rank, uint64_t from)
{
	struct rank_range r = { .log = log,
				.at = from,
				.until = MIN(log->size, from + RANK_READ),
				.bytes = API_BYTES_MAX,
				.lines = UINT64_MAX };
	struct err err = { 0 };

	log_part_init(&r.part, &(struct log_wanted){ .of_rank = true, .rank = (uint32_t)rank });
	if (!api_uint(a, "bytes", 1, API_BYTES_MAX, &r.bytes) ||
	    !api_uint(a, "lines", 1, UINT32_MAX, &r.lines))
		return;
	if (log->fd >= 0 && read_rank(&r, &err) < 0)
		web_problem_err(a->x, &err);
	else
		answer_part(a, log, from, r.at - from, r.text.s ? r.text.s : "", r.text.len);
	str_deinit(&r.text);
}

static void answer_bytes(struct api *a, const struct log_source *log, uint64_t from, uint64_t n)
{
	char *buf = arena_alloc(a->arena, n + 1);
	ssize_t got = n ? fs_read_at(log->fd, buf, n, (off_t)from) : 0;
	struct err err = { 0 };

	if (got >= 0) {
		answer_part(a, log, from, (uint64_t)got, buf, (size_t)got);
		return;
	}
	err_errno(&err, "cannot read the log");
	web_problem_err(a->x, &err);
}

void api_run_log_range(struct api *a)
{
	struct log_source log;
	uint64_t from, n;
	int64_t rank;

	if (!api_log_rank(a, &rank))
		return;
	if (rank < 0 && web_param(a->x, "lines")) {
		web_problem(a->x, 400, "`lines` counts those of a `rank`: name one");
		return;
	}
	if (!api_log_open(a, &log))
		return;
	if (api_range(a, log.size, &from, &n)) {
		if (rank >= 0)
			answer_rank(a, &log, rank, from);
		else
			answer_bytes(a, &log, from, n);
	}
	log_source_close(&log);
}
