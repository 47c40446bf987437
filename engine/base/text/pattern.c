/* engine/base/text/pattern.c — regular expressions by a lazy deterministic automaton.
 *
 * The parser makes a tree, compile() a program of it, from its end to its beginning: each
 * instruction matches a set of bytes, forks, or asserts a border of the line. A state of the
 * automaton is the set of instructions that can match next; step() makes the state behind a byte
 * the first time and keeps it, so that a byte of text is one look into a table. When there are
 * STATES_MAX states, all are forgotten and the automaton begins anew from the set that it has.
 *
 * Invariants: texts, programs and the work of compiling are bounded, so memory and the time for a
 * byte are, too. `^` holds only in the closure at the beginning of a line, `$` only in the one at
 * its end. A state that has FOUND stays found.
 *
 * Sources: Ken Thompson, "Regular Expression Search Algorithm" (1968); Russ Cox, "Regular
 * Expression Matching Can Be Simple And Fast" (2007).
 */
#include "base/text/pattern.h"
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include "base/mem.h"

#define TEXT_MAX   1000
#define CODE_MAX   2000
#define WORK_MAX   (20 * CODE_MAX) /* calls of compile() */
#define DEPTH_MAX  50
#define REPEAT_MAX 200
#define STATES_MAX 256
#define BYTES      256

struct byte_set {
	uint64_t bits[BYTES / 64];
};

static bool has(const struct byte_set *s, unsigned byte)
{
	return s->bits[byte / 64] >> byte % 64 & 1;
}

static void add(struct byte_set *s, unsigned from, unsigned to)
{
	for (unsigned b = from; b <= to; b++)
		s->bits[b / 64] |= 1ULL << b % 64;
}

/* The tree. Nodes are numbers; 0 is none. */
struct node {
	enum { N_BYTE, N_CHARACTER, N_BEGIN, N_END, N_ALL, N_ONE_OF, N_REPEAT } kind;
	uint32_t last;     /* child: of N_ALL and N_ONE_OF the last one, of N_REPEAT the only one */
	uint32_t before;   /* the sibling before it */
	unsigned min, max; /* of N_REPEAT; max: UINT_MAX without a limit */
	struct byte_set set;
};

struct instruction {
	enum { MATCH_SET, FORK, LINE_BEGIN, LINE_END, FOUND } kind;
	uint32_t next, other; /* other: of FORK */
	struct byte_set set;
};

struct state {
	uint32_t *at; /* instructions of the kinds MATCH_SET and LINE_END */
	size_t n;
	bool found;
	uint16_t next[BYTES]; /* state + 1; 0: not made yet */
};

struct pattern {
	VEC(struct node) nodes;
	VEC(struct instruction) code;
	uint32_t begin;
	bool any_case;
	size_t work;
	struct state *states;
	size_t n_states;
	uint32_t *marks; /* of each instruction: the closure that has it */
	uint32_t closure;
	/* The set that is being made, and what is still to be followed. */
	uint32_t *set, *stack;
	size_t n_set;
	bool found;
};

/* Parsing. */

struct parser {
	struct pattern *p;
	const char *text, *at;
	unsigned depth;
	struct err *err;
};

static int wrong(struct parser *r, const char *what)
{
	return err_set(r->err, ERR_INVALID, "%s at character %zu of the regular expression", what,
		       (size_t)(r->at - r->text) + 1);
}

static uint32_t new_node(struct parser *r, struct node n)
{
	VEC_PUSH(&r->p->nodes, n);
	return (uint32_t)r->p->nodes.n - 1;
}

static void adopt(struct parser *r, uint32_t parent, uint32_t child)
{
	struct node *v = r->p->nodes.v;

	v[child].before = v[parent].last;
	v[parent].last = child;
}

static bool class_of(char c, struct byte_set *ret)
{
	struct byte_set s = { 0 };
	char kind = (char)(c | 0x20);

	if (kind == 'd' || kind == 'w')
		add(&s, '0', '9');
	if (kind == 'w') {
		add(&s, 'a', 'z');
		add(&s, 'A', 'Z');
		add(&s, '_', '_');
	}
	if (kind == 's') {
		add(&s, '\t', '\r');
		add(&s, ' ', ' ');
	}
	if (kind != 'd' && kind != 'w' && kind != 's')
		return false;
	for (size_t i = 0; i < ARRAY_LEN(s.bits); i++)
		ret->bits[i] |= c == kind ? s.bits[i] : ~s.bits[i];
	return true;
}

/* Behind a backslash: a class, or one byte in *ret_byte (else -1). */
static int parse_escape(struct parser *r, struct byte_set *ret, int *ret_byte)
{
	char c = *r->at, letter = (char)(c | 0x20);

	*ret_byte = -1;
	if (!c)
		return wrong(r, "nothing behind the backslash");
	if (!class_of(c, ret)) {
		if (c != 't' && ((c >= '0' && c <= '9') || (letter >= 'a' && letter <= 'z')))
			return wrong(r, "unknown escape");
		*ret_byte = c == 't' ? '\t' : (unsigned char)c;
	}
	r->at++;
	return 0;
}

static int parse_member(struct parser *r, struct byte_set *ret, int *ret_byte)
{
	if (*r->at == '\\') {
		r->at++;
		return parse_escape(r, ret, ret_byte);
	}
	if ((unsigned char)*r->at >= 0x80)
		return wrong(r, "only ASCII can be in [ ], write (ä|ö) instead,");
	*ret_byte = (unsigned char)*r->at++;
	return 0;
}

static void fold(const struct pattern *p, struct byte_set *s)
{
	for (unsigned c = 'a'; p->any_case && c <= 'z'; c++)
		if (has(s, c) || has(s, c ^ 0x20)) {
			add(s, c, c);
			add(s, c ^ 0x20, c ^ 0x20);
		}
}

/* Behind `[`. */
static int parse_set(struct parser *r, struct byte_set *ret)
{
	bool negated = *r->at == '^';
	bool first = true;

	for (r->at += negated; *r->at != ']' || first; first = false) {
		int from = -1, to;

		if (!*r->at)
			return wrong(r, "no ] for the [");
		if (parse_member(r, ret, &from) < 0)
			return -1;
		to = from;
		if (from >= 0 && r->at[0] == '-' && r->at[1] && r->at[1] != ']') {
			r->at++;
			if (parse_member(r, ret, &to) < 0)
				return -1;
			if (to < from)
				return wrong(r, "a range that ends before it begins");
		}
		if (from >= 0)
			add(ret, (unsigned)from, (unsigned)to);
	}
	r->at++;
	fold(r->p, ret);
	for (size_t i = 0; negated && i < ARRAY_LEN(ret->bits); i++)
		ret->bits[i] = ~ret->bits[i];
	return 0;
}

static int parse_choice(struct parser *r, uint32_t *ret);

/* Behind `(`. */
static int parse_group(struct parser *r, uint32_t *ret)
{
	if (++r->depth > DEPTH_MAX)
		return wrong(r, "groups nested too deep");
	if (r->at[0] == '?' && r->at[1] != ':')
		return wrong(r, "only ?: can be behind a ( instead of what is");
	r->at += *r->at == '?' ? 2 : 0;
	if (parse_choice(r, ret) < 0)
		return -1;
	if (*r->at != ')')
		return wrong(r, "no ) for a (");
	r->at++;
	r->depth--;
	return 0;
}

static int parse_atom(struct parser *r, uint32_t *ret)
{
	struct node n = { .kind = N_BYTE };
	char c = *r->at;
	int byte = (unsigned char)c;

	if (strchr("*+?{", c))
		return wrong(r, "nothing to repeat");
	r->at++;
	if (c == '(')
		return parse_group(r, ret);
	if (c == '^' || c == '$') {
		n.kind = c == '^' ? N_BEGIN : N_END;
	} else if (c == '[') {
		byte = -1;
		if (parse_set(r, &n.set) < 0)
			return -1;
	} else if (c == '.') {
		byte = -1;
		add(&n.set, 0, BYTES - 1);
	} else {
		if (c == '\\' && parse_escape(r, &n.set, &byte) < 0)
			return -1;
		if (byte >= 0)
			add(&n.set, (unsigned)byte, (unsigned)byte);
		fold(r->p, &n.set);
	}
	/* A class with what isn't ASCII has whole characters. */
	if (byte < 0 && has(&n.set, BYTES - 1))
		n.kind = N_CHARACTER;
	*ret = new_node(r, n);
	return 0;
}

static bool parse_count(struct parser *r, unsigned *ret)
{
	const char *from = r->at;

	for (*ret = 0; *r->at >= '0' && *r->at <= '9' && *ret <= REPEAT_MAX; r->at++)
		*ret = *ret * 10 + (unsigned)(*r->at - '0');
	return r->at > from && *ret <= REPEAT_MAX;
}

/* What is behind an atom: how often. */
static int parse_repeat(struct parser *r, uint32_t *node)
{
	char c = *r->at;
	struct node n = { .kind = N_REPEAT, .min = c == '+', .max = c == '?' ? 1 : UINT_MAX };
	bool good = true;

	r->at++;
	if (c == '{') {
		good = parse_count(r, &n.min);
		n.max = n.min;
		if (good && *r->at == ',') {
			r->at++;
			n.max = UINT_MAX;
			good = *r->at == '}' || parse_count(r, &n.max);
		}
		good = good && *r->at == '}' && n.max >= n.min;
		if (!good)
			return wrong(r, "no {n}, {n,} or {n,m} with numbers up to 200");
		r->at++;
	}
	n.last = *node;
	*node = new_node(r, n);
	return 0;
}

static int parse_sequence(struct parser *r, uint32_t *ret)
{
	uint32_t all = new_node(r, (struct node){ .kind = N_ALL }), one;

	while (*r->at && *r->at != '|' && *r->at != ')') {
		if (parse_atom(r, &one) < 0)
			return -1;
		while (*r->at && strchr("*+?{", *r->at))
			if (parse_repeat(r, &one) < 0)
				return -1;
		adopt(r, all, one);
	}
	*ret = all;
	return 0;
}

static int parse_choice(struct parser *r, uint32_t *ret)
{
	uint32_t choice = new_node(r, (struct node){ .kind = N_ONE_OF }), one;

	do {
		if (parse_sequence(r, &one) < 0)
			return -1;
		adopt(r, choice, one);
	} while (*r->at == '|' && r->at++);
	*ret = choice;
	return 0;
}

/* Compiling. */

static int emit(struct pattern *p, struct instruction i, uint32_t *ret, struct err *err)
{
	if (p->code.n >= CODE_MAX)
		return err_set(err, ERR_INVALID, "the regular expression is too large");
	*ret = (uint32_t)p->code.n;
	VEC_PUSH(&p->code, i);
	return 0;
}

static int emit_fork(struct pattern *p, uint32_t next, uint32_t other, uint32_t *ret,
		     struct err *err)
{
	return emit(p, (struct instruction){ .kind = FORK, .next = next, .other = other }, ret,
		    err);
}

/* A byte of ASCII in the set; or a lead byte and what follows it. */
static int emit_character(struct pattern *p, const struct byte_set *set, uint32_t next,
			  uint32_t *ret, struct err *err)
{
	struct instruction first = { .kind = MATCH_SET, .set = *set },
			   follows = { .kind = MATCH_SET };

	add(&follows.set, 0x80, 0xbf);
	for (size_t i = 0; i < ARRAY_LEN(first.set.bits); i++)
		first.set.bits[i] &= ~follows.set.bits[i];
	if (emit_fork(p, next, 0, &first.next, err) < 0)
		return -1;
	follows.next = first.next;
	return emit(p, follows, &p->code.v[first.next].other, err) < 0 ? -1
								       : emit(p, first, ret, err);
}

static int compile(struct pattern *p, uint32_t node, uint32_t next, uint32_t *ret, struct err *err);

static int compile_repeat(struct pattern *p, const struct node *n, uint32_t next, uint32_t *ret,
			  struct err *err)
{
	uint32_t at = next, fork, body;

	if (n->max == UINT_MAX) {
		if (emit_fork(p, 0, next, &fork, err) < 0 ||
		    compile(p, n->last, fork, &body, err) < 0)
			return -1;
		p->code.v[fork].next = body;
		at = fork;
	}
	for (unsigned i = n->min; n->max != UINT_MAX && i < n->max; i++)
		if (compile(p, n->last, at, &body, err) < 0 ||
		    emit_fork(p, body, next, &at, err) < 0)
			return -1;
	for (unsigned i = 0; i < n->min; i++)
		if (compile(p, n->last, at, &at, err) < 0)
			return -1;
	*ret = at;
	return 0;
}

/* *ret: where the node begins, if `next` comes behind it. */
static int compile(struct pattern *p, uint32_t node, uint32_t next, uint32_t *ret, struct err *err)
{
	const struct node n = p->nodes.v[node];
	uint32_t at = next, one;

	if (++p->work > WORK_MAX)
		return err_set(err, ERR_INVALID, "the regular expression is too large");
	switch (n.kind) {
	case N_BYTE:
		return emit(p, (struct instruction){ MATCH_SET, next, 0, n.set }, ret, err);
	case N_CHARACTER:
		return emit_character(p, &n.set, next, ret, err);
	case N_BEGIN:
	case N_END:
		return emit(p,
			    (struct instruction){ .kind = n.kind == N_BEGIN ? LINE_BEGIN : LINE_END,
						  .next = next },
			    ret, err);
	case N_REPEAT:
		return compile_repeat(p, &n, next, ret, err);
	case N_ALL:
		for (uint32_t c = n.last; c; c = p->nodes.v[c].before)
			if (compile(p, c, at, &at, err) < 0)
				return -1;
		break;
	case N_ONE_OF:
		if (compile(p, n.last, next, &at, err) < 0)
			return -1;
		for (uint32_t c = p->nodes.v[n.last].before; c; c = p->nodes.v[c].before)
			if (compile(p, c, next, &one, err) < 0 ||
			    emit_fork(p, one, at, &at, err) < 0)
				return -1;
		break;
	}
	*ret = at;
	return 0;
}

int pattern_new(const char *text, bool any_case, struct pattern **ret, struct err *err)
{
	_cleanup_(pattern_freep) struct pattern *p = xcalloc(1, sizeof(*p));
	struct parser r = { p, text, text, 0, err };
	uint32_t root, end;

	p->any_case = any_case;
	if (strlen(text) > TEXT_MAX)
		return err_set(err, ERR_INVALID, "a regular expression has at most %d bytes",
			       TEXT_MAX);
	new_node(&r, (struct node){ 0 }); /* 0 is none */
	if (parse_choice(&r, &root) < 0)
		return -1;
	if (*r.at)
		return wrong(&r, "a ) without its (");
	if (emit(p, (struct instruction){ .kind = FOUND }, &end, err) < 0 ||
	    compile(p, root, end, &p->begin, err) < 0)
		return -1;
	VEC_FREE(&p->nodes);
	p->states = xcalloc(STATES_MAX, sizeof(*p->states));
	p->marks = xcalloc(p->code.n, sizeof(*p->marks));
	p->set = xcalloc(p->code.n, sizeof(*p->set));
	p->stack = xcalloc(2 * p->code.n + 1, sizeof(*p->stack));
	*ret = p;
	p = NULL;
	return 0;
}

static void forget(struct pattern *p)
{
	for (size_t i = 0; i < p->n_states; i++)
		free(p->states[i].at);
	p->n_states = 0;
}

void pattern_free(struct pattern *p)
{
	if (!p)
		return;
	forget(p);
	VEC_FREE(&p->nodes);
	VEC_FREE(&p->code);
	free(p->states);
	free(p->marks);
	free(p->set);
	free(p->stack);
	free(p);
}

/* Matching. */

static void begin_set(struct pattern *p)
{
	if (++p->closure == 0) { /* after 2^32 sets, old marks could be taken for new ones */
		memset(p->marks, 0, p->code.n * sizeof(*p->marks));
		p->closure = 1;
	}
	p->n_set = 0;
	p->found = false;
}

/* All that can match when the program is at `at`. Each instruction is followed once a set, so the
 * stack holds two for each at most. */
static void follow(struct pattern *p, uint32_t at, bool line_begins, bool line_ends)
{
	size_t n = 0;

	p->stack[n++] = at;
	while (n > 0) {
		uint32_t i = p->stack[--n];
		const struct instruction *x = &p->code.v[i];

		if (p->marks[i] == p->closure)
			continue;
		p->marks[i] = p->closure;
		if (x->kind == FOUND)
			p->found = true;
		if (x->kind == MATCH_SET || x->kind == LINE_END)
			p->set[p->n_set++] = i;
		if (x->kind == FORK)
			p->stack[n++] = x->other;
		if (x->kind == FORK || (x->kind == LINE_BEGIN && line_begins) ||
		    (x->kind == LINE_END && line_ends))
			p->stack[n++] = x->next;
	}
}

/* The state of the set; it is made if there is none. When there is no room, all others go. */
static uint16_t keep(struct pattern *p)
{
	struct state *s;

	for (size_t i = 0; i < p->n_states; i++) {
		s = &p->states[i];
		if (s->found == p->found && s->n == p->n_set &&
		    memcmp(s->at, p->set, s->n * sizeof(*s->at)) == 0)
			return (uint16_t)(i + 1);
	}
	if (p->n_states == STATES_MAX)
		forget(p);
	s = &p->states[p->n_states++];
	*s = (struct state){ .n = p->n_set, .found = p->found };
	s->at = xmalloc((s->n + 1) * sizeof(*s->at));
	memcpy(s->at, p->set, s->n * sizeof(*s->at));
	return (uint16_t)p->n_states;
}

/* A match may begin behind each byte, too. */
static uint16_t step(struct pattern *p, uint16_t state, unsigned byte)
{
	const struct state *s = &p->states[state - 1];
	uint16_t next;
	bool full = p->n_states == STATES_MAX;

	begin_set(p);
	for (size_t i = 0; i < s->n; i++) {
		const struct instruction *x = &p->code.v[s->at[i]];

		if (x->kind == MATCH_SET && has(&x->set, byte))
			follow(p, x->next, false, false);
	}
	follow(p, p->begin, false, false);
	next = keep(p);
	if (!full || p->n_states == STATES_MAX) /* `state` wasn't forgotten */
		p->states[state - 1].next[byte] = next;
	return next;
}

/* Whether what is left needs nothing but the end of the line. */
static bool ends(struct pattern *p, uint16_t state)
{
	const struct state *s = &p->states[state - 1];

	begin_set(p);
	for (size_t i = 0; i < s->n; i++)
		if (p->code.v[s->at[i]].kind == LINE_END)
			follow(p, s->at[i], false, true);
	return p->found;
}

bool pattern_matches(struct pattern *p, const char *line, size_t n)
{
	uint16_t state;

	begin_set(p);
	follow(p, p->begin, true, n == 0);
	if (p->found)
		return true;
	state = keep(p);
	for (size_t i = 0; i < n; i++) {
		unsigned byte = (unsigned char)line[i];
		uint16_t next = p->states[state - 1].next[byte];

		state = next ? next : step(p, state, byte);
		if (p->states[state - 1].found)
			return true;
	}
	return ends(p, state);
}
