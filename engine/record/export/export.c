#include "record/export/export.h"
#include "base/text/text.h"

#define PIECE (1 * MIB)

int export_open(struct export_run *x, struct db *db, struct store *s, const struct run_row *run,
		struct arena *arena, struct err *err)
{
	*x = (struct export_run){ .db = db, .store = s, .arena = arena, .run = run };
	if (run->state == RUN_RUNNING)
		return err_set(err, ERR_INVALID,
			       "run %s hasn't ended: what it made isn't known yet", run->id);
	if (record_run_inputs(db, run->rowid, arena, &x->pins, &x->n_pins, err) < 0 ||
	    facts_read_tasks(db, s, run, arena, &x->tasks, &x->n_tasks, err) < 0 ||
	    record_run_records(db, run->rowid, arena, &x->attempts, &x->n_attempts, err) < 0)
		return -1;
	x->params = run->params_json ? json_loads(run->params_json, 0, NULL) : NULL;
	if (!x->params)
		x->params = json_object();
	return 0;
}

void export_close(struct export_run *x)
{
	json_decref(x->params);
	x->params = NULL;
}

const char *export_uuid(struct arena *a, const char *kind, const struct run_row *run,
			int64_t attempt)
{
	_cleanup_(str_deinit) struct str s = { 0 };
	struct digest d;

	str_addf(&s, "cairn\n%s\n%s\n%lld\n%lld", kind, run->id, (long long)run->started_ns,
		 (long long)attempt);
	digest_bytes(s.s, s.len, &d);
	d.b[6] = (uint8_t)(0x80 | (d.b[6] & 0x0f));
	d.b[8] = (uint8_t)(0x80 | (d.b[8] & 0x3f));
	return arena_printf(a,
			    "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
			    d.b[0], d.b[1], d.b[2], d.b[3], d.b[4], d.b[5], d.b[6], d.b[7], d.b[8],
			    d.b[9], d.b[10], d.b[11], d.b[12], d.b[13], d.b[14], d.b[15]);
}

const char *export_time(struct arena *a, int64_t wall_ns)
{
	_cleanup_(str_deinit) struct str s = { 0 };

	text_add_time(&s, wall_ns, 3);
	return arena_strndup(a, s.s, s.len);
}

int64_t export_ended_ns(const struct export_run *x, const struct attempt_row *a)
{
	return a->ended_ns ? a->ended_ns : MAX(x->run->ended_ns, a->started_ns);
}

const char *export_problem(const struct export_run *x, const struct attempt_row *a)
{
	if (a->ended_ns && a->failure == FAILURE_NONE)
		return NULL;
	if (a->message)
		return a->message;
	return a->ended_ns ? arena_printf(x->arena, "ended as %s", failure_class_name(a->failure))
			   : "its end isn't on record: the engine of the run stopped before it";
}

const char *export_hex(struct arena *a, const struct digest *d)
{
	char hex[DIGEST_HEX_MAX];

	return arena_strdup(a, digest_hex(d, hex));
}

const char *export_uri(struct arena *a, const char *origin)
{
	_cleanup_(str_deinit) struct str s = { 0 };

	if (!origin)
		return "urn:cairn:unknown";
	if (!str_has_prefix(origin, "path:"))
		return origin;
	for (const char *p = origin + strlen("path:"); *p; p++)
		if ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
		    (*p >= '0' && *p <= '9') || strchr("-._~/", *p))
			str_addc(&s, *p);
		else
			str_addf(&s, "%%%02X", (unsigned char)*p);
	return arena_printf(a, "file:%s", s.s ? s.s : "");
}

int export_sha256(struct store *s, const struct content_id *id, struct digest *ret, struct err *err)
{
	_cleanup_(fd_closep) int fd = -1;
	_cleanup_(freep) void *piece = NULL;
	struct digester *d;
	ssize_t n;

	if (id->size_bytes <= CONTENT_PART_BYTES) { /* then the id's digest is the SHA-256 */
		*ret = id->digest;
		return 0;
	}
	if (content_open(s, id, &fd, err) < 0)
		return -1;
	piece = xmalloc(PIECE);
	d = digester_new();
	while ((n = read(fd, piece, PIECE)) > 0)
		digester_update(d, piece, (size_t)n);
	digester_final(d, ret);
	digester_free(d);
	return n < 0 ? err_errno(err, "reading the store") : 0;
}

const struct facts_task *export_maker(const struct export_run *x, const struct content_id *id,
				      const char **ret_output)
{
	for (size_t t = 0; t < x->n_tasks; t++)
		for (size_t i = 0; i < x->tasks[t].n_outputs; i++)
			if (content_id_eq(&x->tasks[t].outputs[i].id, id)) {
				*ret_output = x->tasks[t].outputs[i].name;
				return &x->tasks[t];
			}
	return NULL;
}

const struct run_input_row *export_input(const struct export_run *x, const struct content_id *id)
{
	for (size_t i = 0; i < x->n_pins; i++)
		if (str_has_prefix(x->pins[i].name, "input:") && content_id_eq(&x->pins[i].id, id))
			return &x->pins[i];
	return NULL;
}
