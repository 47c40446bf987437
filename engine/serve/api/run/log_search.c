/* engine/serve/api/run/log_search.c — lines of a log with a text, or that match a regular
 * expression.
 *
 * A search reads at most SCAN_MAX bytes for one answer, which says where the next one goes on. A
 * plain text is looked for in whole buffers; for a regular expression, or in the lines of one rank,
 * each line is looked at. Lines are numbered by the index (log_lines.c).
 *
 * Invariants: of a line longer than LINE_MAX its beginning is matched. An answer by lines takes
 * TIME_MAX_NS and one line at most, whatever the expression is (base/text/pattern.h).
 *
 * Threads: the pool's.
 */
#include <string.h>
#include "base/os/fs.h"
#include "base/text/pattern.h"
#include "base/time/clock.h"
#include "serve/api/run/log_lines.h"

#define CHUNK        (1 * MIB)
#define SCAN_MAX     (64 * MIB)
#define LINE_MAX     (64 * KIB)
#define TIME_MAX_NS  (NS_PER_S / 2)
#define MATCHES_MAX  1000
#define SHOWN_BEFORE 120
#define SHOWN_MAX    600
#define QUERY_MAX    1000

struct search {
	struct api *a;
	const struct log_source *log;
	const char *q;
	size_t q_len;
	bool any_case;
	int64_t rank;            /* whose lines; -1: all */
	struct pattern *pattern; /* or NULL */
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

/* By lines. */

/* Of a line of this rank, what is behind its mark. */
static bool is_wanted(const struct log_mark *m, const char **line, size_t *n)
{
	if (*n < m->len || memcmp(*line, m->s, m->len) != 0)
		return false;
	*line += m->len;
	*n -= m->len;
	return true;
}

/* 1 or 0, or -1: it can't be told. */
static int line_matches(struct search *s, const char *line, size_t n, char *folded, struct err *err)
{
	n = MIN(n, LINE_MAX);
	if (s->pattern)
		return pattern_matches(s->pattern, line, n, err);
	if (s->any_case) {
		memcpy(folded, line, n);
		lower(folded, n);
		line = folded;
	}
	return memmem(line, n, s->q, s->q_len) != NULL;
}

/* One line, which begins at `at`. 0: enough, and this one is the first of the next answer; 1: go
 * on. */
static int look_at_line(struct search *s, const struct log_mark *mark, const char *line, size_t n,
			uint64_t at, char *folded, struct err *err)
{
	int matches;

	if (!is_wanted(mark, &line, &n))
		return 1;
	matches = at >= s->from ? line_matches(s, line, n, folded, err) : 0;
	if (matches < 0)
		return -1;
	if (matches) {
		if (json_array_size(s->matches) == s->limit) {
			s->next = at;
			return 0;
		}
		json_array_append_new(s->matches,
				      json_pack("{s:I, s:I, s:o}", "offset", (json_int_t)at, "line",
						(json_int_t)s->line, "text",
						api_lossy_text(line, MIN(n, (size_t)SHOWN_MAX))));
	}
	s->line++;
	return 1;
}

/* From s->counted, where a line begins. A line that is longer than a buffer counts once. */
static int search_lines(struct search *s, struct err *err)
{
	_cleanup_(freep) char *buf = xmalloc(CHUNK), *folded = xmalloc(LINE_MAX);
	int64_t end_ns = clock_mono_ns() + TIME_MAX_NS;
	uint64_t at = s->counted;
	struct log_mark mark;
	bool inside = false; /* of a line that was looked at */

	log_mark_init(&mark, s->rank);
	while (at < s->log->size) {
		ssize_t n = fs_read_at(s->log->fd, buf, MIN(CHUNK, s->log->size - at), (off_t)at);
		const char *line = buf, *end = buf + MAX(n, 0);

		if (n <= 0)
			return n < 0 ? err_errno(err, "cannot read the log") : 0;
		while (line < end) {
			const char *eol = memchr(line, '\n', (size_t)(end - line));
			uint64_t line_at = at + (uint64_t)(line - buf);

			if (!eol && line > buf && at + (uint64_t)n < s->log->size)
				break; /* its end is in the next buffer */
			if (!inside && line_at > s->from &&
			    (line_at >= s->until || clock_mono_ns() > end_ns)) {
				s->next = line_at;
				return 0;
			}
			if (!inside) {
				int r = look_at_line(s, &mark, line,
						     (size_t)((eol ? eol : end) - line), line_at,
						     folded, err);

				if (r <= 0)
					return r;
			}
			inside = !eol;
			line = eol ? eol + 1 : end;
		}
		at += (uint64_t)(line - buf);
	}
	return 0;
}

/* By text. */

/* Lines up to where the search begins: at most some thousand. */
static int count_before(struct search *s, struct err *err)
{
	_cleanup_(freep) char *buf = xmalloc(CHUNK);

	while (s->counted < s->from) {
		uint64_t at = s->counted;
		ssize_t n = fs_read_at(s->log->fd, buf, MIN(CHUNK, s->from - at), (off_t)at);

		if (n < 0)
			return err_errno(err, "cannot read the log");
		if (n == 0)
			break;
		count_lines(s, buf, at, at + (uint64_t)n);
	}
	return 0;
}

static void answer_search(struct search *s)
{
	struct log_line near;
	struct err err = { 0 };
	int r = 0;

	s->from = MIN(s->from, s->log->size);
	if (!api_log_line_near(s->a, s->log, s->rank, s->from, &near))
		return;
	s->until = MIN(s->from + SCAN_MAX, s->log->size);
	s->line = near.number;
	s->counted = near.at;
	s->matches = json_array();
	if (s->log->fd >= 0 && (s->pattern || s->rank >= 0))
		r = search_lines(s, &err);
	else if (s->log->fd >= 0)
		r = count_before(s, &err) < 0 ? -1 : search_all(s, &err);
	if (r < 0)
		web_problem_err(s->a->x, &err);
	else
		web_answer_json(
			s->a->x, 200,
			json_pack("{s:I, s:O, s:o}", "bytes", (json_int_t)s->log->size, "matches",
				  s->matches, "next_offset",
				  s->next ? json_integer((json_int_t)s->next) : json_null()));
	json_decref(s->matches);
}

/* What is looked for. False: answered. */
static bool read_query(struct search *s)
{
	bool exact = false, regex = false;
	struct err err = { 0 };
	struct api *a = s->a;

	s->q = web_param(a->x, "q");
	s->q_len = s->q ? strlen(s->q) : 0;
	if (!s->q_len || s->q_len > QUERY_MAX || strchr(s->q, '\n')) {
		web_problem(a->x, 400,
			    "parameter `q` must be the text to look for, in one line of at most "
			    "%d bytes",
			    QUERY_MAX);
		return false;
	}
	if (!api_bool(a, "case", &exact) || !api_bool(a, "regex", &regex))
		return false;
	s->any_case = !exact;
	if (regex && pattern_new(s->q, s->any_case, &s->pattern, &err) < 0) {
		web_problem(a->x, 400, "parameter `q`: %s", err.msg);
		return false;
	}
	if (s->any_case) {
		char *q = arena_strdup(a->arena, s->q);

		lower(q, s->q_len);
		s->q = q;
	}
	return true;
}

void api_run_log_search(struct api *a)
{
	struct search s = { .a = a, .limit = 100 };
	struct log_source log;

	if (!api_uint(a, "limit", 1, MATCHES_MAX, &s.limit) ||
	    !api_uint(a, "offset", 0, INT64_MAX / 2, &s.from) || !api_log_rank(a, &s.rank) ||
	    !read_query(&s))
		return;
	if (api_log_open(a, &log)) {
		s.log = &log;
		answer_search(&s);
		log_source_close(&log);
	}
	pattern_free(s.pattern);
}
