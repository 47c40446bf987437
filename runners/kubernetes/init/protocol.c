/* runners/kubernetes/init/protocol.c — writes and reads the plan and the exit line.
 *
 * A plan is a magic line and fields, each after its length; numbers are fields of 8 bytes. The
 * decoder's results point into its input, and it checks each length against the rest (take()).
 * `bad` is sticky: a decoder continues with zeros and NULLs, and reports the error at the end. The
 * exit line is text, so that a person can read it in the pod.
 *
 * The sidecar and the static helper share this file, so it uses only the C library and
 * base/text/str.c. Pure functions.
 */
#include "runners/kubernetes/init/protocol.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include "base/mem.h"
#include "base/text/str.h"

#define MAGIC     "cairn-plan 1\n"
#define MAGIC_LEN (sizeof(MAGIC) - 1)

static void add_text(struct str *out, const char *s)
{
	str_add_field(out, s, strlen(s));
}

static void add_number(struct str *out, int64_t v)
{
	str_add_u32(out, 8);
	str_add_u64(out, (uint64_t)v);
}

static void add_list(struct str *out, const char *const *v)
{
	size_t n = 0;

	while (v && v[n])
		n++;
	add_number(out, (int64_t)n);
	for (size_t i = 0; i < n; i++)
		add_text(out, v[i]);
}

char *init_plan_encode(const struct init_program *programs, size_t n, size_t *ret_len)
{
	struct str out = { 0 };

	assert(n >= 1 && n <= INIT_PROGRAMS_MAX);
	str_addn(&out, MAGIC, MAGIC_LEN);
	add_number(&out, (int64_t)n);
	for (const struct init_program *p = programs; p < programs + n; p++) {
		add_text(&out, p->dir);
		add_text(&out, p->tmp);
		add_list(&out, p->argv);
		add_list(&out, p->env);
		add_list(&out, p->redact);
		add_number(&out, p->timeout_ns);
		add_number(&out, p->grace_ns);
		add_number(&out, p->forwards_signals);
	}
	*ret_len = out.len;
	return str_take(&out);
}

/* Decoding.
 *
 * A text stands between its own length and the next field's length. Once that next length was read,
 * its first byte can become the text's NUL. So each text gets its NUL when the field after it is
 * reached. */

struct cursor {
	char *at, *end;
	char *to_end; /* where the last text needs its NUL */
	bool bad;
};

static uint64_t little_endian(const char *p, size_t n)
{
	uint64_t v = 0;

	while (n--)
		v = v << 8 | (uint8_t)p[n];
	return v;
}

static char *take(struct cursor *c, size_t *ret_n)
{
	char *text;
	size_t n;

	*ret_n = 0;
	if (c->bad || c->end - c->at < 4) {
		c->bad = true;
		return NULL;
	}
	n = (size_t)little_endian(c->at, 4);
	if (c->to_end)
		*c->to_end = '\0';
	text = c->at + 4;
	if ((size_t)(c->end - text) < n) {
		c->bad = true;
		return NULL;
	}
	c->at = c->to_end = text + n;
	*ret_n = n;
	return text;
}

static const char *take_text(struct cursor *c)
{
	size_t n;
	const char *s = take(c, &n);

	c->bad |= s && memchr(s, '\0', n);
	return s;
}

static int64_t take_number(struct cursor *c)
{
	size_t n;
	const char *s = take(c, &n);

	if (!s || n != 8) {
		c->bad = true;
		return 0;
	}
	return (int64_t)little_endian(s, 8);
}

static const char *const *take_list(struct cursor *c)
{
	int64_t n = take_number(c);
	const char **v;

	/* Each item has at least a length. */
	if (c->bad || n < 0 || n > (c->end - c->at) / 4) {
		c->bad = true;
		return NULL;
	}
	v = xcalloc((size_t)n + 1, sizeof(*v));
	for (int64_t i = 0; i < n; i++)
		v[i] = take_text(c);
	return v;
}

void init_plan_free(struct init_program *programs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free((void *)programs[i].argv);
		free((void *)programs[i].env);
		free((void *)programs[i].redact);
	}
	free(programs);
}

int init_plan_decode(char *bytes, size_t len, struct init_program **ret, size_t *ret_n)
{
	struct cursor c = { bytes + MAGIC_LEN, bytes + len, NULL,
			    len < MAGIC_LEN || memcmp(bytes, MAGIC, MAGIC_LEN) != 0 };
	int64_t n = c.bad ? 0 : take_number(&c);
	struct init_program *v;

	if (c.bad || n < 1 || n > INIT_PROGRAMS_MAX)
		return -1;
	v = xcalloc((size_t)n, sizeof(*v));
	for (struct init_program *p = v; p < v + n && !c.bad; p++) {
		p->dir = take_text(&c);
		p->tmp = take_text(&c);
		p->argv = take_list(&c);
		p->env = take_list(&c);
		p->redact = take_list(&c);
		p->timeout_ns = take_number(&c);
		p->grace_ns = take_number(&c);
		p->forwards_signals = take_number(&c);
		c.bad |= p->timeout_ns < 0 || p->grace_ns < 0 || (!c.bad && !p->argv[0]);
	}
	if (c.bad || c.at != c.end) {
		init_plan_free(v, (size_t)n);
		return -1;
	}
	*ret = v;
	*ret_n = (size_t)n;
	return 0;
}

/* The end. */

size_t init_exit_encode(const struct init_exit *e, char *buf, size_t cap)
{
	int n = snprintf(buf, cap,
			 "exit %d signal %d timeout %d told %d oom %d started %lld ended %lld cpu "
			 "%lld rss %llu\n",
			 e->status, e->signo, e->timed_out, e->told_to_end, e->oom,
			 (long long)e->started_ns, (long long)e->ended_ns, (long long)e->cpu_ns,
			 (unsigned long long)e->max_rss_bytes);

	return n < 0 || (size_t)n >= cap ? 0 : (size_t)n;
}

/* "name NUMBER", after a space unless it is the first. */
static bool take_named(const char **at, const char *name, int64_t min, int64_t max, int64_t *ret)
{
	size_t n = strlen(name);
	char *end;

	if (strncmp(*at, name, n) != 0 || (*at)[n] != ' ' ||
	    ((*at)[n + 1] != '-' && ((*at)[n + 1] < '0' || (*at)[n + 1] > '9')))
		return false;
	*ret = strtoll(*at + n + 1, &end, 10);
	if (*ret < min || *ret > max || (*end != ' ' && *end != '\n'))
		return false;
	*at = end + 1;
	return true;
}

int init_exit_decode(const char *text, struct init_exit *ret)
{
	int64_t status, signo, timed_out, told, oom, started, ended, cpu, rss;

	if (!take_named(&text, "exit", -1, 255, &status) ||
	    !take_named(&text, "signal", 0, 128, &signo) ||
	    !take_named(&text, "timeout", 0, 1, &timed_out) ||
	    !take_named(&text, "told", 0, 1, &told) || !take_named(&text, "oom", 0, 1, &oom) ||
	    !take_named(&text, "started", 0, INT64_MAX, &started) ||
	    !take_named(&text, "ended", 0, INT64_MAX, &ended) ||
	    !take_named(&text, "cpu", 0, INT64_MAX, &cpu) ||
	    !take_named(&text, "rss", 0, INT64_MAX, &rss) || *text)
		return -1;
	*ret = (struct init_exit){ .status = (int)status,
				   .signo = (int)signo,
				   .timed_out = timed_out,
				   .told_to_end = told,
				   .oom = oom,
				   .started_ns = started,
				   .ended_ns = ended,
				   .cpu_ns = cpu,
				   .max_rss_bytes = (uint64_t)rss };
	return 0;
}
