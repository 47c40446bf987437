/* engine/model/inputs.c — where content comes from and where outputs are exported to: paths in the
 * project, object-store URIs, https, artifacts of earlier runs.
 *
 * The table `schemes` gives for each prefix its origin and the check of the rest. Text without a
 * scheme is a path in the project (read_path()). Only the form is checked. Nothing is opened,
 * hashed or fetched: engine/plan/sources/pin.c does that when a run starts.
 *
 * An input is declared under `inputs` of the pipeline, or a step names a path or URI itself.
 * step_implicit_input() makes one input_decl for each such text (loader.implicit_inputs), however
 * many steps name it. Declared inputs come first in loader.inputs; n_declared_inputs counts them.
 *
 * `claim` and `image` name a volume of a cluster. Cairn can't read it, so `pin`, or the image's
 * digest, stands for its content.
 *
 * A message never shows a URI that may hold a password. A URL with a signature in its query only
 * gives a warning: the URL is stored with the pipeline.
 */
#include "base/os/fs.h"
#include "model/config/config.h"
#include "model/read.h"
#include "model/step/placement.h"

/* bucket/key; the key may be empty (a whole bucket). */
static const char *check_bucket(const char *rest)
{
	size_t n = strcspn(rest, "/");

	if (strspn(rest, "abcdefghijklmnopqrstuvwxyz0123456789.-_") < n)
		return "a bucket's name has lower-case letters, digits, `.`, `-` and `_`";
	return n >= 3 && n <= 222 ? NULL : "the name of the bucket is missing or too short";
}

static const char *check_https(const char *rest)
{
	size_t host = strcspn(rest, "/?#");

	if (memchr(rest, '@', host))
		return "a user and a password don't belong into a pipeline";
	return host == 0 || *rest == '.' ? "the host is missing" : NULL;
}

/* Anyone on the network path could change the bytes of plain HTTP; the local machine has no such
 * path. */
static const char *check_http(const char *rest)
{
	size_t host = strcspn(rest, ":/?#");

	if (strspn(rest, "0123456789.") == host && str_has_prefix(rest, "127."))
		return NULL;
	return (host == 9 && str_has_prefix(rest, "localhost")) || str_has_prefix(rest, "[::1]")
		       ? NULL
		       : "http:// is for this machine (127.0.0.1, localhost) only; use https://";
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
	{ "http://", INPUT_HTTPS, check_http },
	{ "artifact:", INPUT_ARTIFACT, check_artifact },
};

/* S3, Google, Azure and CloudFront sign URLs in the query: until it lapses, it is as good as a
 * password. */
static bool holds_signature(const char *url)
{
	static const char *const names[] = { "X-Amz-Signature", "X-Goog-Signature", "Signature",
					     "sig" };

	for (const char *q = strchr(url, '?'); q; q = strchr(q, '&'))
		for (size_t i = (q++, 0), n = strcspn(q, "=&#"); i < ARRAY_LEN(names); i++)
			if (n == strlen(names[i]) && strncasecmp(q, names[i], n) == 0)
				return true;
	return false;
}

/* 1 it is a URI of a known kind; 0 it is a path; -1 reported. */
static int read_uri(const struct doc *d, const struct yaml_node *n, enum input_origin *ret)
{
	static const char of_scheme[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.";
	const char *end;

	for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
		const struct pos at = doc_pos(d, n);
		const char *problem;

		if (!str_has_prefix(n->text, schemes[i].prefix))
			continue;
		problem = has_space_or_control(n->text)
				  ? "it has spaces or control characters"
				  : schemes[i].check(n->text + strlen(schemes[i].prefix));
		if (n->len > PATH_TEXT_MAX)
			problem = "it is too long";
		if (problem) /* the rest may hold a password */
			doc_error(d, n, "`%.*s` is not a valid URI: %s",
				  strchr(n->text, '@') ? (int)strlen(schemes[i].prefix) : 80,
				  n->text, problem);
		else if (schemes[i].origin == INPUT_HTTPS && holds_signature(n->text))
			diag_warn_at(
				d->l->diags, &at,
				"the signature in this URL is kept with the pipeline in the store, "
				"for everybody who can read that: use s3:// or gs:// with "
				"credentials, or a step that fetches it with a secret");
		*ret = schemes[i].origin;
		return problem ? -1 : 1;
	}
	end = strstr(n->text, "://");
	if (!end || end == n->text || strspn(n->text, of_scheme) < (size_t)(end - n->text))
		return 0;
	doc_error(d, n,
		  "`%.80s`: content comes from a path in the project, s3://, gs://, https:// or "
		  "artifact:<hash>",
		  n->text);
	return -1;
}

/* In a past run's pipeline an input is what that run read. Of what it didn't read, a path isn't
 * known, and says so when a run needs it. */
static void take_content(const struct doc *d, struct input_decl *in)
{
	const char *taken = d->content && in->uri ? map_get_str(d->content, in->uri) : NULL;
	const char *hex = taken ? strchr(taken, ':') : NULL;
	_cleanup_(freep) char *kind = hex ? xstrndup(taken, (size_t)(hex - taken)) : NULL;

	if (!hex)
		return;
	in->taken_kind = content_kind_parse(kind);
	in->taken_from = in->uri;
	in->origin = INPUT_ARTIFACT;
	in->mode = INPUT_AUTO;
	in->uri = arena_printf(d->l->arena, "artifact%s", hex);
	in->root = NULL;
	in->must_be_dir = false;
}

/* Reads a path or URI into `in`. */
static bool read_location(const struct doc *d, const struct yaml_node *n, struct input_decl *in)
{
	int r;

	if (!doc_want_text(d, n, "an input"))
		return false;
	if (template_text_has_expr(n->text, n->len)) {
		doc_error(d, n,
			  "an input of the pipeline can't contain an expression, since inputs are "
			  "read first; a step may use a path below it: \"${{ inputs.%s }}/…\"",
			  in->name ? in->name : "NAME");
		return false;
	}
	r = read_uri(d, n, &in->origin);
	if (r == 1)
		in->uri = doc_text(d, n);
	if (r == 0) {
		in->origin = INPUT_PATH;
		in->uri = read_path(d, n, n->text, ".", "input", true, &in->must_be_dir);
		in->root = d->root;
	}
	if (r < 0 || !in->uri)
		return false;
	if (r == 0 && fs_is_inside(".cairn", in->uri)) {
		doc_error(d, n, "`%s` belongs to cairn's own state and can't be an input", in->uri);
		return false;
	}
	return true;
}

/* Reads how to reach an input that needs other access than the store. */
static void read_access(const struct doc *d, const struct yaml_node *n, struct input_decl *in)
{
	static const char *const names[] = { "endpoint", "region", "profile" };
	const char **const fields[] = { &in->access.endpoint, &in->access.region,
					&in->access.profile };
	const struct yaml_node *v;

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		v = yaml_get(n, names[i]);
		if (!v || !doc_want_text(d, v, names[i]))
			continue;
		*fields[i] = doc_text(d, v);
		if (has_space_or_control(v->text) || v->len > 512)
			doc_error(d, v, "`%s` is too long, or has spaces or control characters",
				  names[i]);
		else if (i == 0 && !str_has_prefix(v->text, "https://") &&
			 !str_has_prefix(v->text, "http://"))
			doc_error(d, v, "`endpoint`: `%.80s` must begin with https:// or http://",
				  v->text);
		if (in->origin != INPUT_S3 && in->origin != INPUT_GS)
			doc_error(d, v, "`%s` is for s3:// and gs://", names[i]);
	}
	v = yaml_get(n, "anonymous");
	if (v)
		read_bool(d, v, "`anonymous`", &in->access.anonymous);
	if (v && in->origin != INPUT_S3 && in->origin != INPUT_GS)
		doc_error(d, v, "`anonymous` is for s3:// and gs://");
}

/* The path in a volume: "/a/b", or "" for all of it; NULL after a report. */
static const char *read_volume_path(const struct doc *d, const struct yaml_node *n)
{
	_cleanup_(freep) char *normal = NULL;

	if (!n)
		return "";
	if (!doc_want_text(d, n, "`path`"))
		return NULL;
	normal = fs_normalise(n->text + strspn(n->text, "/"));
	if (has_space_or_control(n->text) || n->len > PATH_TEXT_MAX || str_eq(normal, "..") ||
	    str_has_prefix(normal, "../")) {
		doc_error(d, n,
			  "`path`: `%.80s` leads out of the volume, is too long, or has spaces or "
			  "control characters",
			  n->text);
		return NULL;
	}
	return str_eq(normal, ".") ? "" : arena_printf(d->l->arena, "/%s", normal);
}

#define DIGEST_MARK "@sha256:"

/* What stands behind the `@` of an image's name; NULL: no digest does. */
static const char *digest_of_image(const char *name)
{
	const char *at = strstr(name, DIGEST_MARK);

	return at && strlen(at) == strlen(DIGEST_MARK) + 64 &&
			       strspn(at + strlen(DIGEST_MARK), "0123456789abcdef") == 64
		       ? at + 1
		       : NULL;
}

static void read_volume(const struct doc *d, const struct yaml_node *n, struct input_decl *in)
{
	static const char *const of_claim[] = { "claim", "path", "pin" };
	static const char *const of_image[] = { "image", "path" };
	const struct yaml_node *claim = yaml_get(n, "claim"), *image = yaml_get(n, "image"),
			       *pin = yaml_get(n, "pin");
	const char *path = read_volume_path(d, yaml_get(n, "path")), *name = NULL;

	doc_check_keys(d, n, claim ? of_claim : of_image,
		       claim ? ARRAY_LEN(of_claim) : ARRAY_LEN(of_image));
	in->origin = INPUT_VOLUME;
	in->pin = "";
	if (claim && placement_read_name(d, claim, "`claim`", &name) && path)
		in->uri = arena_printf(d->l->arena, "claim://%s%s", name, path);
	if (claim && !pin)
		doc_error(d, n,
			  "input `%s` needs `pin`: a text that you change when the data changes. "
			  "Cairn can't read a claim, so this stands for its content in keys",
			  in->name);
	else if (claim && doc_want_scalar(d, pin, "`pin`")) {
		in->pin = doc_text(d, pin);
		if (!pin->len || pin->len > 256 || template_text_has_expr(pin->text, pin->len) ||
		    has_space_or_control(pin->text))
			doc_error(d, pin,
				  "`pin` is a text of 1 to 256 bytes without spaces, control "
				  "characters and expressions");
	}
	if (claim || !doc_check_image_name(d, image))
		return;
	in->pin = digest_of_image(image->text);
	if (!in->pin)
		doc_error(d, image,
			  "`image`: `%.120s`: name an image that is an input by its digest: "
			  "registry/name@sha256:…",
			  image->text);
	in->pin = arena_strdup(d->l->arena, in->pin ? in->pin : "");
	if (path)
		in->uri = arena_printf(d->l->arena, "image://%s%s", image->text, path);
}

static void read_long(const struct doc *d, const struct yaml_node *n, struct input_decl *in)
{
	static const char *const keys[] = { "uri",    "mode",    "endpoint",
					    "region", "profile", "anonymous" };
	static const char *const modes[] = { [INPUT_AUTO] = "auto",
					     [INPUT_COPY] = "copy",
					     [INPUT_REFERENCE] = "reference",
					     [INPUT_LINK] = "link" };
	const struct yaml_node *uri = yaml_get(n, "uri"), *mode = yaml_get(n, "mode");
	const char *m = modes[0];

	if (!uri && (yaml_get(n, "claim") || yaml_get(n, "image"))) {
		read_volume(d, n, in);
		return;
	}
	doc_check_keys(d, n, keys, ARRAY_LEN(keys));
	if (!uri)
		doc_error(d, n, "input `%s` has no `uri`", in->name);
	else if (!read_location(d, uri, in))
		uri = NULL;
	if (mode)
		read_choice(d, mode, "`mode`", modes, ARRAY_LEN(modes), &m);
	while (modes[in->mode] != m)
		in->mode++;
	if (uri && in->mode == INPUT_REFERENCE &&
	    (in->origin == INPUT_PATH || in->origin == INPUT_ARTIFACT))
		doc_error(d, mode,
			  "`mode: reference` is for s3://, gs:// and https://; this content is "
			  "kept in the store anyway");
	if (uri && in->mode == INPUT_LINK && in->origin != INPUT_PATH)
		doc_error(d, mode, "`mode: link` is for a path in the project");
	if (uri)
		read_access(d, n, in);
}

/* Which of the inputs that `by` gives has this name, counted from 1; 0: none. */
static size_t find_given(const struct use *use, const char *name)
{
	const struct yaml_node *given = use->by ? yaml_get(use->by->node, "inputs") : NULL;

	for (size_t i = 0; given && given->kind == YAML_KIND_MAP && i < given->len; i++)
		if (strcmp(given->pairs[i].key->text, name) == 0)
			return i + 1;
	return 0;
}

void read_pipeline_inputs(struct loader *l, struct use *use, const struct yaml_node *n)
{
	const struct doc *d = use->doc;

	if (!n || yaml_is_null(n) || !doc_want_map(d, n, "`inputs`"))
		return;
	for (size_t i = 0; i < n->len; i++) {
		const struct yaml_node *key = n->pairs[i].key, *value = n->pairs[i].value;
		struct input_decl in = { .name = doc_text(d, key), .pos = doc_pos(d, key) };
		size_t given = find_given(use, in.name);

		doc_check_name(d, key, NAME_IDENT, "input");
		if (value->kind == YAML_KIND_MAP)
			read_long(d, value, &in);
		else
			read_location(d, value, &in);
		take_content(d, &in);
		if (given) {
			*map_slot_str(use->names.inputs, in.name) =
				(void *)(uintptr_t)(BOUND_BIT | given);
			continue;
		}
		VEC_PUSH(&l->inputs, in);
		*map_slot_str(use->names.inputs, in.name) = (void *)(uintptr_t)l->inputs.n;
		if (*use->prefix)
			l->inputs.v[l->inputs.n - 1].name =
				arena_printf(l->arena, "%s%s", use->prefix, in.name);
		map_slot_str(l->input_names, l->inputs.v[l->inputs.n - 1].name);
	}
	l->n_declared_inputs = l->inputs.n;
}

uint32_t step_implicit_input(struct loader *l, const struct doc *d, const struct yaml_node *n)
{
	struct input_decl in = { .pos = doc_pos(d, n) };
	void **slot;

	if (!read_location(d, n, &in))
		return UINT32_MAX;
	take_content(d, &in);
	slot = map_slot_str(l->implicit_inputs,
			    in.taken_from ? arena_printf(l->scratch, "%s %s", in.uri, in.taken_from)
					  : arena_printf(l->scratch, "%s%s%s%s",
							 in.root ? in.root : "", in.root ? "/" : "",
							 in.uri, in.must_be_dir ? "/" : ""));
	if (!*slot) {
		/* A file may have the name of a declared input. */
		in.name = arena_printf(
			l->arena, "%s%s%s%s%s", in.root ? in.root : "", in.root ? "/" : "",
			map_has(l->input_names, in.uri, strlen(in.uri)) ? "./" : "", in.uri,
			in.origin == INPUT_PATH && in.must_be_dir ? "/" : "");
		if (in.taken_from) /* the same content may be two inputs with names of their own */
			in.name = arena_printf(l->arena, "%s/%s", d->root, in.taken_from);
		VEC_PUSH(&l->inputs, in);
		*slot = (void *)(uintptr_t)l->inputs.n;
	}
	return (uint32_t)(uintptr_t)*slot - 1;
}

/* Exports. */

static bool has_part_up(const char *s)
{
	for (; *s; s += strcspn(s, "/"), s += *s == '/')
		if (str_has_prefix(s, "..") && (s[2] == '/' || !s[2]))
			return true;
	return false;
}

/* A place in the project. */
static const char *check_export_path(const char *s)
{
	_cleanup_(freep) char *normal = fs_normalise(s);

	if (strstr(s, "://"))
		return "an output is exported to s3://…, gs://…, a path in the project, or an "
		       "absolute path (file:///…)";
	if (has_part_up(s))
		return "it leads upward";
	if (str_eq(normal, "."))
		return "it is the whole project: name something in it";
	for (size_t i = 0; config_not_content[i]; i++)
		if (fs_is_inside(config_not_content[i], normal))
			return "it belongs to the state of cairn or git";
	for (; *s; s++)
		if ((unsigned char)*s < ' ' || *s == 0x7f)
			return "it has control characters";
	return NULL;
}

/* The text before the first expression must give the kind of place and the bucket. */
static const char *check_export(const char *s, size_t fixed)
{
	size_t bucket = 5 + strcspn(s + MIN(fixed, (size_t)5), "/");

	if (*s == '/' || str_has_prefix(s, "file:///"))
		return has_part_up(s) ? "it leads upward" : NULL;
	if (str_has_prefix(s, "file:"))
		return "file:// is followed by an absolute path";
	if (fixed == 0)
		return "it begins with an expression: begin with a folder, or with ./";
	if (!str_has_prefix(s, "s3://") && !str_has_prefix(s, "gs://"))
		return check_export_path(s);
	if (bucket > fixed || (bucket == fixed && s[fixed]))
		return "the bucket can't depend on expressions";
	if (!s[bucket] || !s[bucket + 1])
		return "a name in the bucket is missing";
	return check_bucket(s + 5);
}

bool export_place_is_path(const char *text)
{
	return *text != '/' && !str_has_prefix(text, "file:") && !strstr(text, "://");
}

const char *export_place_problem(const char *text)
{
	return *text ? check_export(text, strlen(text)) : "it is empty";
}

/* Looks at the text outside of expressions. */
static bool has_bad_text(const char *s)
{
	for (; *s; s++) {
		const char *end =
			s[0] == '$' && s[1] == '{' && s[2] == '{' ? strstr(s, "}}") : NULL;

		if (end)
			s = end + 1;
		else if ((unsigned char)*s <= ' ' || *s == 0x7f)
			return true;
	}
	return false;
}

const struct expr_template *read_export(const struct doc *d, const struct yaml_node *n)
{
	const char *expr, *problem;

	if (!doc_want_text(d, n, "`export`"))
		return NULL;
	expr = strstr(n->text, "${{");
	problem = !n->len ? "it is empty"
			  : check_export(n->text, expr ? (size_t)(expr - n->text) : n->len);
	if (!problem && !export_place_is_path(n->text) && has_bad_text(n->text))
		problem = "it has spaces or control characters";
	if (!problem && n->len > PATH_TEXT_MAX)
		problem = "it is too long";
	if (!problem)
		return read_template(d, n);
	doc_error(d, n, "`export: %.80s`: %s", n->text, problem);
	return NULL;
}

const struct input_decl *export_place_meets(const struct input_decl *inputs, size_t n,
					    const char *path, bool above)
{
	for (size_t i = 0; i < n; i++) /* one that was refused has no URI */
		if (inputs[i].origin == INPUT_PATH && inputs[i].uri && !inputs[i].root &&
		    (fs_is_inside(inputs[i].uri, path) ||
		     (above && fs_is_inside(path, inputs[i].uri))))
			return &inputs[i];
	return NULL;
}
