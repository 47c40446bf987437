/* Where content comes from: paths in the project, object-store URIs, artifacts of earlier runs. Shapes are checked here;
 * nothing is looked at. */
#include "base/fs.h"
#include "model/read.h"

static bool is_bucket_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
}

static bool has_bad_char(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s <= ' ' || *s == 0x7f)
			return true;
	return false;
}

/* bucket/key; the key may be empty (a whole bucket). */
static const char *check_bucket(const char *rest)
{
	size_t n = strcspn(rest, "/");

	for (size_t i = 0; i < n; i++)
		if (!is_bucket_char(rest[i]))
			return "a bucket's name has lower-case letters, digits, `.`, `-` and `_`";
	return n >= 3 && n <= 222 ? NULL : "the name of the bucket is missing or too short";
}

static const char *check_https(const char *rest)
{
	size_t host = strcspn(rest, "/?#");

	return host == 0 || *rest == '.' || strcspn(rest, "@") < host ? "the host is missing" : NULL;
}

static const char *check_artifact(const char *rest)
{
	struct digest digest;
	size_t len = strlen(rest);

	if (digest_parse(rest, &digest, NULL) == 0)
		return NULL;
	if (len >= 8 && len < 64 && strspn(rest, "0123456789abcdef") == len)
		return "give all 64 digits of the artifact's hash";
	return "an artifact is named by its hash: artifact:<64 hex digits>";
}

static const struct {
	const char *prefix;
	enum input_origin origin;
	const char *(*check)(const char *rest);
} schemes[] = {
	{ "s3://", INPUT_S3, check_bucket },
	{ "gs://", INPUT_GS, check_bucket },
	{ "https://", INPUT_HTTPS, check_https },
	{ "artifact:", INPUT_ARTIFACT, check_artifact },
};

static bool has_scheme(const char *s)
{
	const char *p = strstr(s, "://");

	if (!p || p == s)
		return false;
	for (; s < p; s++)
		if (!((*s | 32) >= 'a' && (*s | 32) <= 'z') && !(*s >= '0' && *s <= '9') && *s != '+' && *s != '-' && *s != '.')
			return false;
	return true;
}

/* 1 it is a URI of a kind that we know; 0 it is a path; -1 reported. */
static int read_uri(const struct doc *d, const struct yaml_node *n, enum input_origin *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
		const char *problem;

		if (!str_has_prefix(n->text, schemes[i].prefix))
			continue;
		problem = has_bad_char(n->text) ? "it has spaces or control characters" : schemes[i].check(n->text + strlen(schemes[i].prefix));
		if (n->len > PATH_TEXT_MAX)
			problem = "it is too long";
		if (problem)
			bad(d, n, "`%.80s` is not a valid URI: %s", n->text, problem);
		*ret = schemes[i].origin;
		return problem ? -1 : 1;
	}
	if (!has_scheme(n->text))
		return 0;
	bad(d, n, "`%.80s`: content comes from a path in the project, s3://, gs://, https:// or artifact:<hash>%s", n->text,
	    str_has_prefix(n->text, "http://") ? "; http:// isn't safe" : "");
	return -1;
}

/* A path or URI into `in`. */
static bool read_location(const struct doc *d, const struct yaml_node *n, struct input_decl *in)
{
	int r;

	if (!want_text(d, n, "an input"))
		return false;
	if (template_text_has_expr(n->text, n->len)) {
		bad(d, n, "an input of the pipeline can't depend on expressions: it is pinned before anything is known; a step may use a path below it: \"${{ inputs.%s }}/…\"",
		    in->name ? in->name : "NAME");
		return false;
	}
	r = read_uri(d, n, &in->origin);
	if (r == 1)
		in->uri = copy_text(d, n);
	if (r != 0)
		return r == 1;
	in->origin = INPUT_PATH;
	in->uri = read_path(d, n, n->text, ".", "input", true, &in->optional_dir);
	if (in->uri && fs_is_inside(".cairn", in->uri)) {
		bad(d, n, "`%s` belongs to cairn's own state and can't be an input", in->uri);
		return false;
	}
	return in->uri != NULL;
}

static void read_long(const struct doc *d, const struct yaml_node *n, struct input_decl *in)
{
	static const char *const keys[] = { "uri", "mode" };
	static const char *const modes[] = { "copy", "reference" };
	const struct yaml_node *uri = yaml_get(n, "uri"), *mode = yaml_get(n, "mode");
	const char *m = modes[0];

	check_keys(d, n, keys, ARRAY_LEN(keys));
	if (!uri)
		bad(d, n, "input `%s` has no `uri`", in->name);
	else if (!read_location(d, uri, in))
		uri = NULL;
	if (mode)
		read_choice(d, mode, "`mode`", modes, ARRAY_LEN(modes), &m);
	in->by_reference = m == modes[1];
	if (uri && in->by_reference && (in->origin == INPUT_PATH || in->origin == INPUT_ARTIFACT))
		bad(d, mode, "`mode: reference` is for s3://, gs:// and https://; this content is kept in the store anyway");
}

void read_pipeline_inputs(struct loader *l, const struct yaml_node *n)
{
	const struct doc *d = &l->doc;

	if (!n || yaml_is_null(n) || !want_map(d, n, "`inputs`"))
		return;
	for (size_t i = 0; i < n->len; i++) {
		const struct yaml_node *key = n->pairs[i].key, *value = n->pairs[i].value;
		struct input_decl in = { .name = copy_text(d, key), .pos = pos_of(d, key) };

		check_name(d, key, NAME_IDENT, "input");
		if (value->kind == YAML_KIND_MAP)
			read_long(d, value, &in);
		else
			read_location(d, value, &in);
		VEC_PUSH(&l->inputs, in);
		*map_slot_str(l->input_index, in.name) = (void *)(uintptr_t)l->inputs.n;
	}
	l->n_declared_inputs = l->inputs.n;
}

uint32_t implicit_input(struct loader *l, const struct doc *d, const struct yaml_node *n)
{
	struct input_decl in = { .pos = pos_of(d, n) };
	void **slot;

	if (!read_location(d, n, &in))
		return UINT32_MAX;
	slot = map_slot_str(l->implicit_inputs, arena_printf(l->scratch, "%s%s", in.uri, in.optional_dir ? "/" : ""));
	if (!*slot) {
		/* A declared input has a name without `/` and `.`, and may have the very name of a file at the root. */
		in.name = arena_printf(l->arena, "%s%s%s", map_get_str(l->input_index, in.uri) ? "./" : "", in.uri,
				       in.origin == INPUT_PATH && in.optional_dir ? "/" : "");
		VEC_PUSH(&l->inputs, in);
		*slot = (void *)(uintptr_t)l->inputs.n;
	}
	return (uint32_t)(uintptr_t)*slot - 1;
}

bool read_export_uri(const struct doc *d, const struct yaml_node *n, const char **ret)
{
	enum input_origin origin = INPUT_PATH;
	int r;

	if (!want_text(d, n, "`export`"))
		return false;
	if (template_text_has_expr(n->text, n->len)) {
		bad(d, n, "`export` can't depend on expressions");
		return false;
	}
	r = read_uri(d, n, &origin);
	if (r >= 0 && origin != INPUT_S3 && origin != INPUT_GS) {
		bad(d, n, "`export` goes to s3://… or gs://…, not `%.80s`", n->text);
		return false;
	}
	if (r == 1)
		*ret = copy_text(d, n);
	return r == 1;
}
