/* Drawings are read back: whoever follows the lines of a drawing must come to exactly the edges of
 * the graph. */
#include <stdlib.h>
#include <string.h>
#include "base/text/text.h"
#include "cli/graph/graph.h"
#include "cli/graph/layout.h"
#include "unit.h"

/* A drawing as cells. */

enum { UP = 1, DOWN = 2, LEFT = 4, RIGHT = 8 };
#define MAX_W 400
#define MAX_H 400

struct picture {
	uint8_t bits[MAX_H][MAX_W];
	int name[MAX_H][MAX_W]; /* node + 1 */
	int w, h;
	const struct graph *g;
	const char *text;
	bool seen[MAX_H][MAX_W];
	bool reached[64];
};

static void broken(const struct picture *p, const char *fmt, ...) _printf_(2, 3);
static void broken(const struct picture *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n%s", p->text);
	fail();
}

static uint8_t bits_of(uint32_t c)
{
	static const struct {
		uint32_t c;
		uint8_t bits;
	} glyphs[] = { { 0x2502, UP | DOWN },
		       { 0x2500, LEFT | RIGHT },
		       { 0x2514, UP | RIGHT },
		       { 0x2518, UP | LEFT },
		       { 0x250c, DOWN | RIGHT },
		       { 0x2510, DOWN | LEFT },
		       { 0x251c, UP | DOWN | RIGHT },
		       { 0x2524, UP | DOWN | LEFT },
		       { 0x252c, DOWN | LEFT | RIGHT },
		       { 0x2534, UP | LEFT | RIGHT },
		       { 0x253c, UP | DOWN | LEFT | RIGHT } };
	for (size_t i = 0; i < ARRAY_LEN(glyphs); i++)
		if (glyphs[i].c == c)
			return glyphs[i].bits;
	return 0;
}

static int node_named(const struct graph *g, const char *s, size_t n)
{
	for (size_t i = 0; i < g->n_nodes; i++)
		if (strlen(g->nodes[i].name) == n && memcmp(g->nodes[i].name, s, n) == 0)
			return (int)i;
	return -1;
}

static void read_picture(struct picture *p, const struct graph *g, const char *s)
{
	memset(p, 0, sizeof(*p));
	p->g = g;
	p->text = s;
	for (int x = 0; *s;) {
		uint32_t c;
		size_t n = text_utf8_decode(s, strlen(s), &c);

		if (*s == '\n') {
			p->h++;
			x = -1;
		} else if (*s == '[' || (*s >= 'a' && *s <= 'z')) {
			const char *name = s + strspn(s, "[ ");
			int node = node_named(g, name,
					      strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789"));
			n = *s == '[' ? strcspn(s, "]") + 1
				      : strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789");
			assert_true(node >= 0);
			for (size_t i = 0; i < n; i++)
				p->name[p->h][x + (int)i] = node + 1;
			x += (int)n - 1;
		} else {
			assert_true(*s == ' ' || bits_of(c));
			p->bits[p->h][x] = bits_of(c);
		}
		s += n;
		x++;
		assert_true(x < MAX_W && p->h < MAX_H);
		p->w = p->w > x ? p->w : x;
	}
}

/* From a cell that was entered while going in direction `way`; never upward. A vertical line that
 * another one passes behind has no horizontal bits, and a horizontal one goes on beyond it. */
static void walk(struct picture *p, int y, int x, int way)
{
	uint8_t b = p->bits[y][x];

	if (p->name[y][x]) {
		assert_int_equal(way, DOWN);
		p->reached[p->name[y][x] - 1] = true;
		return;
	}
	if (way != DOWN && b == (UP | DOWN)) { /* passing behind it */
		walk(p, y, way == LEFT ? x - 1 : x + 1, way);
		return;
	}
	if (!(b & (way == DOWN ? UP : way == LEFT ? RIGHT : LEFT)))
		broken(p, "a line ends in the open at line %d, column %d", y + 1, x + 1);
	if (p->seen[y][x])
		return;
	p->seen[y][x] = true;
	if (b & DOWN)
		walk(p, y + 1, x, DOWN);
	if ((b & LEFT) && way != RIGHT)
		walk(p, y, x - 1, LEFT);
	if ((b & RIGHT) && way != LEFT)
		walk(p, y, x + 1, RIGHT);
}

static void follow_from(struct picture *p, int node)
{
	memset(p->seen, 0, sizeof(p->seen));
	memset(p->reached, 0, sizeof(p->reached));
	for (int y = 0; y + 1 < p->h; y++)
		for (int x = 0; x < p->w; x++)
			if (p->name[y][x] == node + 1 && (p->bits[y + 1][x] & UP))
				walk(p, y + 1, x, DOWN);
}

static bool has_edge(const struct graph *g, uint32_t from, uint32_t to)
{
	for (size_t i = 0; i < g->n_edges; i++)
		if (g->edges[i].from == from && g->edges[i].to == to)
			return true;
	return false;
}

/* Below a name only its own net begins; lines that come up from below a name elsewhere would be
 * caught as edges too many. */
static void check_drawing(const struct graph *g, const char *text)
{
	static struct picture p;

	read_picture(&p, g, text);
	for (size_t from = 0; from < g->n_nodes; from++) {
		follow_from(&p, (int)from);
		for (size_t to = 0; to < g->n_nodes; to++)
			if (p.reached[to] != has_edge(g, (uint32_t)from, (uint32_t)to))
				broken(&p, "%s -> %s is %s", g->nodes[from].name, g->nodes[to].name,
				       p.reached[to] ? "too much" : "missing");
	}
}

/* Random graphs. */

#define NODES 40
struct random_graph {
	struct graph g;
	struct graph_node nodes[NODES];
	struct graph_edge edges[NODES * NODES];
	char names[NODES][48];
};

static void make_random(struct random_graph *r, unsigned *seed, size_t n, int density)
{
	r->g = (struct graph){
		.name = "random", .nodes = r->nodes, .n_nodes = n, .edges = r->edges
	};
	for (size_t i = 0; i < n; i++) {
		snprintf(r->names[i], sizeof(r->names[i]), "n%.*s%zu", rand_r(seed) % 8, "abcdefgh",
			 i);
		r->nodes[i] =
			(struct graph_node){ .name = r->names[i], .step = r->names[i], .tasks = 1 };
		for (size_t k = 0; k < i; k++)
			if (rand_r(seed) % 100 < density)
				r->edges[r->g.n_edges++] =
					(struct graph_edge){ (uint32_t)k, (uint32_t)i, GRAPH_DATA };
	}
}

static void test_random_drawings(void **state)
{
	static struct random_graph r;
	struct graph_text_options o = { .columns = 300, .utf8 = true };
	unsigned seed = 5, drawn = 0;

	for (int round = 0; round < 600; round++) {
		_cleanup_(str_deinit) struct str s = { 0 };
		size_t n = 1 + (size_t)rand_r(&seed) % 16;

		make_random(&r, &seed, n, 5 + rand_r(&seed) % 40);
		graph_add_text(&r.g, &o, &s);
		if (strstr(s.s, "also needs")) /* the tree: honest in another way */
			continue;
		check_drawing(&r.g, s.s);
		drawn++;
	}
	print_message("%u of 600 drawn in layers\n", drawn);
	assert_true(drawn > 450);
}

static void test_layers(void **state)
{
	static struct random_graph r;
	unsigned seed = 9;

	for (int round = 0; round < 200; round++) {
		uint32_t layer[NODES];
		size_t n_layers;

		make_random(&r, &seed, 1 + (size_t)rand_r(&seed) % NODES, rand_r(&seed) % 50);
		n_layers = layout_layers(&r.g, layer);
		for (size_t i = 0; i < r.g.n_nodes; i++)
			assert_true(layer[i] < n_layers);
		for (size_t i = 0; i < r.g.n_edges; i++)
			assert_true(layer[r.edges[i].from] < layer[r.edges[i].to]);
	}
}

/* No two places of a layer overlap, whatever the widths. */
static void test_positions(void **state)
{
	static struct random_graph r;
	unsigned seed = 13;

	for (int round = 0; round < 200; round++) {
		double widths[NODES];
		struct layout_options o = {
			.widths = widths, .bend_width = 1, .gap = 3, .whole = round % 2
		};
		_cleanup_(layout_freep) struct layout *l = NULL;

		make_random(&r, &seed, 1 + (size_t)rand_r(&seed) % NODES, rand_r(&seed) % 30);
		for (size_t i = 0; i < r.g.n_nodes; i++)
			widths[i] = 1 + rand_r(&seed) % 20;
		l = layout_new(&r.g, &o);
		assert_non_null(l);
		for (size_t y = 0; y < l->n_layers; y++)
			for (size_t i = 1; i < l->layer_len[y]; i++) {
				const struct place *a = &l->places[l->layers[y][i - 1]],
						   *b = &l->places[l->layers[y][i]];
				assert_true(b->x - a->x >= (a->width + b->width) / 2 + 0.5);
			}
		for (size_t i = 0; i < l->n_places; i++)
			assert_true(l->places[i].x >= 0 && l->places[i].x <= l->width);
	}
}

/* Golden. */

static const char digits[] =
	"pipeline: digits\n"
	"inputs: {raw: data/}\n"
	"steps:\n"
	"  prepare: {run: \"x ${{ inputs.r }} ${{ outputs.o }}\", inputs: {r: \"${{ inputs.raw "
	"}}\"}, outputs: {o: o}}\n"
	"  train:\n"
	"    matrix: {c: [1, 10], k: [a, b, c], exclude: [{c: 1, k: a}]}\n"
	"    run: \"x ${{ inputs.d }} ${{ outputs.m }} ${{ matrix.c }} ${{ matrix.k }}\"\n"
	"    inputs: {d: \"${{ steps.prepare.outputs.o }}\"}\n"
	"    outputs: {m: m}\n"
	"  evaluate:\n"
	"    run: \"x ${{ inputs.m }} ${{ inputs.d }} ${{ outputs.o }}\"\n"
	"    inputs: {m: \"${{ steps.train.outputs.m }}\", d: \"${{ steps.prepare.outputs.o }}\"}\n"
	"    outputs: {o: o}\n"
	"  publish: {run: x, needs: [evaluate]}\n";

static struct pipeline *load(const char *text)
{
	struct pipeline_source file = { "pipeline.yaml", text, strlen(text) };
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	struct pipeline *p = NULL;
	struct err err = { 0 };

	if (pipeline_parse(&file, 1, diags, &p, &err) < 0) {
		struct str s = { 0 };
		diag_render(diags, &s);
		fail_msg("%s\n%s", err.msg, s.s ? s.s : "");
	}
	return p;
}

static void test_text(void **state)
{
	_cleanup_(pipeline_freep) struct pipeline *p = load(digits);
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(str_deinit) struct str s = { 0 };
	struct graph_text_options o = { .columns = 80, .utf8 = true };
	struct graph g;

	assert_int_equal(graph_from_pipeline(p, false, arena, &g, NULL), 0);
	graph_add_text(&g, &o, &s);
	assert_string_equal(s.s, "  (raw)\n"
				 "    │\n"
				 " prepare\n"
				 "    ├──────┐\n"
				 " train ×5  │\n"
				 "    ├──────┘\n"
				 " evaluate\n"
				 "    │\n"
				 " publish\n");
	str_reset(&s);
	o.utf8 = false;
	o.columns = 10;
	graph_add_text(&g, &o, &s); /* too narrow: the tree */
	assert_string_equal(s.s, "(raw)\n"
				 "  prepare\n"
				 "    train x5\n"
				 "      evaluate  also needs prepare\n"
				 "        publish\n");
}

static void test_tasks(void **state)
{
	_cleanup_(pipeline_freep) struct pipeline *p = load(digits);
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(str_deinit) struct str s = { 0 };
	struct graph g;

	assert_int_equal(graph_from_pipeline(p, true, arena, &g, NULL), 0);
	assert_int_equal(g.n_nodes, 1 + 1 + 5 + 1 + 1);
	assert_int_equal(g.n_edges, 1 + 5 + 5 + 1 + 1);
	assert_string_equal(g.nodes[2].name, "train[c=1,k=b]");
	graph_add_mermaid(&g, &s);
	assert_non_null(strstr(s.s, "  n2[\"train[c=1,k=b]\"]\n"));
	assert_non_null(strstr(s.s, "  n0([\"raw\"])\n"));
	assert_non_null(strstr(s.s, "  n7 -.-> n8\n"));
}

/* What a name may do to a format: end its strings, open tags, move the cursor. */
static void test_hostile_names(void **state)
{
	struct graph_node nodes[] = {
		{ .name = "a\"b\\<script>&\x1b[2J\n]--", .step = "a", .tasks = 1 },
		{ .name = "b", .step = "b", .tasks = -1 }
	};
	struct graph_edge edge = { 0, 1, GRAPH_DATA };
	struct graph g = { "x\"<y>", nodes, 2, &edge, 1 };
	struct graph_text_options o = { .columns = 80, .utf8 = true };
	_cleanup_(str_deinit) struct str dot = { 0 }, mermaid = { 0 }, svg = { 0 }, text = { 0 };

	graph_add_dot(&g, &dot);
	assert_non_null(strstr(dot.s, "digraph \"x\\\"<y>\" {"));
	assert_non_null(strstr(dot.s, "\"a\\\"b\\\\<script>&\\\\e[2J\\\\n]--\" [label="));
	graph_add_mermaid(&g, &mermaid);
	assert_non_null(strstr(mermaid.s, "n0[\"a#34;b#92;#60;script#62;#38;#92;e[2J#92;n]--\"]"));
	graph_add_svg(&g, &svg);
	assert_null(strstr(svg.s, "<script"));
	assert_non_null(strstr(svg.s, "a&quot;b\\&lt;script&gt;&amp;\\e[2J\\n]--"));
	graph_add_text(&g, &o, &text);
	assert_null(strchr(text.s, '\033'));
}

/* A chain of 100,000 and a fan of 1,000 end, and soon. */
static void test_large(void **state)
{
	size_t n = 100000;
	struct graph_node *nodes = calloc(n, sizeof(*nodes));
	struct graph_edge *edges = calloc(n, sizeof(*edges));
	struct graph g = { "large", nodes, n, edges, n - 1 };
	struct graph_text_options o = { .columns = 80, .utf8 = true };
	_cleanup_(str_deinit) struct str s = { 0 }, svg = { 0 };

	for (size_t i = 0; i < n; i++) {
		nodes[i] = (struct graph_node){ .name = "n", .step = "n", .tasks = 1 };
		if (i)
			edges[i - 1] =
				(struct graph_edge){ (uint32_t)i - 1, (uint32_t)i, GRAPH_DATA };
	}
	graph_add_text(&g, &o, &s);
	assert_true(s.len > n * 2);
	g.n_nodes = 1000;
	g.n_edges = 999;
	for (size_t i = 0; i < 999; i++)
		edges[i].from = 0;
	graph_add_svg(&g, &svg);
	assert_non_null(strstr(svg.s, "</svg>"));
	free(nodes);
	free(edges);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_drawings), cmocka_unit_test(test_layers),
		cmocka_unit_test(test_positions),       cmocka_unit_test(test_text),
		cmocka_unit_test(test_tasks),           cmocka_unit_test(test_hostile_names),
		cmocka_unit_test(test_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
