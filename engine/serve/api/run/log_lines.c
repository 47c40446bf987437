/* engine/serve/api/run/log_lines.c — where the lines of a log are, ranges of it, and search in it.
 *
 * A log of gigabytes is read once, as a stream: its index has the offset of every EVERYth line, the
 * number of lines, and the first line that looks like an error. The index is kept; that of a log
 * that grows goes on where it was. Ranges are read where they are. A search reads at most SCAN_MAX
 * bytes for one answer, which says where the next one goes on; lines are numbered by the index.
 *
 * Invariants: an index belongs to an attempt, or, where only the store knows the execution, to the
 * log's digest; when the log is shorter than its index, the index begins anew. One index is made at
 * a time. Memory: INDEXES_MAX indexes with OFFSETS_MAX offsets each at most; a longer log has an
 * offset for every second EVERYth line, and so on.
 *
 * Threads: the crew's.
 */
#include <pthread.h>
#include <string.h>
#include "base/os/fs.h"
#include "serve/api/log.h"

#define EVERY        1000
#define INDEXES_MAX  16
#define OFFSETS_MAX  100000
#define CHUNK        (1 * MIB)
#define SCAN_MAX     (64 * MIB)
#define ERRORS_UNTIL (256 * MIB) /* the first error is looked for up to here */
#define MATCHES_MAX  1000
#define SHOWN_BEFORE 120
#define SHOWN_MAX    600
#define QUERY_MAX    1000

struct log_index {
	const struct project *project;
	int64_t attempt;
	struct digest digest;  /* without an attempt */
	uint64_t size;         /* bytes that it covers */
	uint64_t lines;        /* line ends in them */
	uint64_t every;        /* lines between two offsets */
	VEC(uint64_t) offsets; /* of lines 0, every, 2 × every, … */
	bool has_error;
	uint64_t error_at, error_line;
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
	x->offsets.n = 0;
	VEC_PUSH(&x->offsets, 0);
}

static void add_line(struct log_index *x, uint64_t at)
{
	x->lines++;
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
		add_line(x, x->size + (uint64_t)(at - bytes));
	}
	if (error) { /* in the last line, which may go on */
		x->has_error = true;
		x->error_at = x->size + (uint64_t)(line - bytes);
		x->error_line = x->lines;
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
		add_chunk(x, buf, (size_t)n);
	}
	return 0;
}

static bool is_of(const struct log_index *x, const struct project *p, const struct log_source *log)
{
	return x->project == p && x->attempt == log->attempt &&
	       (log->attempt || digest_eq(&x->digest, &log->log.digest));
}

/* With the lock: the known or a new one, moved to the front. */
static struct log_index *take(struct log_indexes *v, const struct project *p,
			      const struct log_source *log)
{
	struct log_index **at = &v->first, *x;
	size_t n = 0;

	while (*at && !is_of(*at, p, log)) {
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
		begin(x);
	}
	x->next = v->first;
	v->first = x;
	return x;
}

/* An index that covers the log as it was opened, with the lock held; NULL: answered, and not
 * held. */
static struct log_index *open_index(struct api *a, const struct log_source *log)
{
	struct log_indexes *v = a->d->log_indexes;
	struct err err = { 0 };
	struct log_index *x;

	pthread_mutex_lock(&v->lock);
	x = take(v, a->project, log);
	if (go_on(x, log, &err) == 0)
		return x;
	pthread_mutex_unlock(&v->lock);
	web_problem_err(a->x, &err);
	return NULL;
}

static void close_index(struct api *a)
{
	pthread_mutex_unlock(&a->d->log_indexes->lock);
}

void api_run_log_index(struct api *a)
{
	struct log_source log;
	struct log_index *x;

	if (!api_log_open(a, &log))
		return;
	x = open_index(a, &log);
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

void api_run_log_range(struct api *a)
{
	struct log_source log;
	struct err err = { 0 };
	uint64_t from, n;

	if (!api_log_open(a, &log))
		return;
	if (api_range(a, log.size, &from, &n)) {
		char *buf = arena_alloc(a->arena, n + 1);
		ssize_t got = n ? fs_read_at(log.fd, buf, n, (off_t)from) : 0;

		if (got < 0) {
			err_errno(&err, "cannot read the log");
			web_problem_err(a->x, &err);
		} else
			web_answer_json(a->x, 200,
					json_pack("{s:I, s:I, s:I, s:b, s:o}", "offset",
						  (json_int_t)from, "bytes", (json_int_t)got,
						  "total", (json_int_t)log.size, "live", log.live,
						  "text", api_lossy_text(buf, (size_t)got)));
	}
	log_source_close(&log);
}

/* Searching. */

struct search {
	struct api *a;
	const struct log_source *log;
	const char *q;
	size_t q_len;
	bool any_case;
	uint64_t limit, from, until;
	/* Counts line ends up to `counted`. */
	uint64_t line, counted;
	json_t *matches;
	uint64_t next; /* where the next search goes on; 0: nothing is left */
};

static void lower(char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (s[i] >= 'A' && s[i] <= 'Z')
			s[i] |= 0x20;
}

static void count_lines(struct search *s, const char *buf, uint64_t buf_at, uint64_t until)
{
	const char *at = buf + (s->counted - buf_at), *end = buf + (until - buf_at);

	while ((at = memchr(at, '\n', (size_t)(end - at)))) {
		s->line++;
		at++;
	}
	s->counted = until;
}

/* The line at `at` in the buffer, or what of it is near. */
static void add_match(struct search *s, const char *buf, size_t n, size_t at, uint64_t buf_at)
{
	size_t from = at, to = at;

	while (from > 0 && buf[from - 1] != '\n' && at - from < SHOWN_BEFORE)
		from--;
	while (to < n && buf[to] != '\n' && to - from < SHOWN_MAX)
		to++;
	json_array_append_new(s->matches,
			      json_pack("{s:I, s:I, s:o}", "offset", (json_int_t)(buf_at + at),
					"line", (json_int_t)s->line, "text",
					api_lossy_text(buf + from, to - from)));
}

/* One buffer. False: enough. */
static bool search_chunk(struct search *s, const char *raw, char *folded, size_t n, uint64_t buf_at,
			 size_t begin_at)
{
	const char *in = raw;

	if (s->any_case) {
		memcpy(folded, raw, n);
		lower(folded, n);
		in = folded;
	}
	for (size_t at = begin_at; at < n;) {
		const char *hit = memmem(in + at, n - at, s->q, s->q_len), *eol;

		if (!hit)
			break;
		if (json_array_size(s->matches) == s->limit) {
			s->next = buf_at + (uint64_t)(hit - in);
			return false;
		}
		count_lines(s, raw, buf_at, buf_at + (uint64_t)(hit - in));
		add_match(s, raw, n, (size_t)(hit - in), buf_at);
		eol = memchr(hit, '\n', (size_t)(in + n - hit)); /* once a line */
		at = eol ? (size_t)(eol - in) + 1 : n;
	}
	return true;
}

/* Buffers overlap by what a match may cross, and by what is shown before it. */
static int search_all(struct search *s, struct err *err)
{
	_cleanup_(freep) char *raw = xmalloc(CHUNK), *folded = xmalloc(CHUNK);
	uint64_t at = s->from;
	size_t kept = 0;

	while (at < s->until) {
		uint64_t buf_at = at - kept;
		ssize_t n = fs_read_at(s->log->fd, raw, MIN(CHUNK, s->log->size - buf_at),
				       (off_t)buf_at);
		size_t overlap;

		if (n < 0)
			return err_errno(err, "cannot read the log");
		if ((size_t)n <= kept)
			return 0;
		if (!search_chunk(s, raw, folded, (size_t)n, buf_at, kept))
			return 0;
		if (buf_at + (uint64_t)n >= s->log->size)
			return 0;
		/* A match may begin in the last bytes and end in the next buffer. */
		at = buf_at + (uint64_t)n - (s->q_len - 1);
		overlap = MIN((size_t)SHOWN_BEFORE, (size_t)(at - buf_at));
		count_lines(s, raw, buf_at, MAX(at - overlap, s->counted));
		kept = overlap;
	}
	s->next = at;
	return 0;
}

static void answer_search(struct search *s)
{
	struct err err = { 0 };
	struct log_index *x = open_index(s->a, s->log);

	if (!x)
		return;
	s->from = MIN(s->from, s->log->size);
	s->until = MIN(s->from + SCAN_MAX, s->log->size);
	for (size_t i = 0; i < x->offsets.n && x->offsets.v[i] <= s->from; i++) {
		s->line = i * x->every;
		s->counted = x->offsets.v[i];
	}
	close_index(s->a);
	s->matches = json_array();
	if (s->counted < s->from) { /* at most some thousand lines */
		_cleanup_(freep) char *buf = xmalloc(CHUNK);

		while (s->counted < s->from) {
			uint64_t at = s->counted;
			ssize_t n =
				fs_read_at(s->log->fd, buf, MIN(CHUNK, s->from - at), (off_t)at);

			if (n <= 0)
				break;
			count_lines(s, buf, at, at + (uint64_t)n);
		}
	}
	if (s->log->fd >= 0 && search_all(s, &err) < 0)
		web_problem_err(s->a->x, &err);
	else
		web_answer_json(
			s->a->x, 200,
			json_pack("{s:I, s:O, s:o}", "bytes", (json_int_t)s->log->size, "matches",
				  s->matches, "next_offset",
				  s->next ? json_integer((json_int_t)s->next) : json_null()));
	json_decref(s->matches);
}

void api_run_log_search(struct api *a)
{
	struct search s = { .a = a, .limit = 100, .any_case = true, .q = web_param(a->x, "q") };
	struct log_source log;
	bool exact = false;

	s.q_len = s.q ? strlen(s.q) : 0;
	if (!s.q_len || s.q_len > QUERY_MAX || strchr(s.q, '\n')) {
		web_problem(a->x, 400,
			    "parameter `q` must be the text to look for, in one line of at most "
			    "%d bytes",
			    QUERY_MAX);
		return;
	}
	if (!api_uint(a, "limit", 1, MATCHES_MAX, &s.limit) ||
	    !api_uint(a, "offset", 0, INT64_MAX / 2, &s.from) || !api_bool(a, "case", &exact) ||
	    !api_log_open(a, &log))
		return;
	s.any_case = !exact;
	if (s.any_case) {
		char *q = arena_strdup(a->arena, s.q);

		lower(q, s.q_len);
		s.q = q;
	}
	s.log = &log;
	answer_search(&s);
	log_source_close(&log);
}
