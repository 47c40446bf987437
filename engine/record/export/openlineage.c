/* engine/record/export/openlineage.c — a run as OpenLineage 2-0-2 events.
 *
 * Each function makes one facet or one part of an event; a facet's _schemaURL names the version
 * that is written here. The run gives a first and a last event, each attempt two in between. Those
 * are sorted by their time as text; the run's own stay at the ends.
 *
 * Datasets are named by the specification's "Naming": an input that the run pinned by its URI; the
 * output of a task of this run by pipeline, task and output; anything else by pipeline and input.
 * Columns are read from the first 64 KiB of a file, when its first two lines have the same number
 * of fields.
 *
 * Invariants: the same record gives the same events, since UUIDs are digests (export_uuid()) and
 * times come from the record. An attempt without an end ends with its run.
 *
 * Threads: the thread of the handle. Not here: reading the record (export.c), printing or
 * sending.
 */
#include <stdarg.h>
#include "base/text/text.h"
#include "record/export/export.h"

#define SPEC        "https://openlineage.io/spec/"
#define SNIFF_BYTES (64 * KIB)
#define FIELDS_MAX  1000

struct writer {
	struct export_run *x;
	const char *job_namespace;
	json_t *events;
};

/* A facet: its own members, as for json_pack(), and the two common ones. */
static json_t *facet(const char *schema, const char *fmt, ...)
{
	json_t *o;
	va_list ap;

	va_start(ap, fmt);
	o = json_vpack_ex(NULL, 0, fmt, ap);
	va_end(ap);
	json_object_set_new(o, "_producer", json_string(EXPORT_PRODUCER));
	json_object_set_new(o, "_schemaURL", json_sprintf(SPEC "facets/%s", schema));
	return o;
}

/* Datasets. */

/* Splits the first line of `s` at commas into names, without simple quotes; returns their number.
 * NULL list: only counts. */
static size_t split_line(const char *s, size_t n, json_t *names)
{
	size_t fields = 0;

	for (size_t from = 0; from <= n;) {
		const char *comma = memchr(s + from, ',', n - from);
		size_t end = comma ? (size_t)(comma - s) : n, a = from, b = end;

		while (a < b && (s[a] == ' ' || s[a] == '"'))
			a++;
		while (b > a && strchr(" \"\r", s[b - 1]))
			b--;
		if (names)
			json_array_append_new(names, json_name(s + a, b - a));
		fields++;
		from = end + 1;
	}
	return fields;
}

/* The columns of a text table: its first two lines have the same number of fields, more than
 * one. */
static json_t *columns_of(struct export_run *x, const struct content_id *id)
{
	_cleanup_(freep) char *bytes = NULL;
	_cleanup_(fd_closep) int fd = -1;
	const char *end, *second;
	json_t *names;
	ssize_t n;
	size_t fields;

	if (!content_is_file(id) || content_open(x->store, id, &fd, NULL) < 0)
		return NULL;
	bytes = xmalloc(SNIFF_BYTES);
	n = read(fd, bytes, SNIFF_BYTES);
	end = n > 0 ? memchr(bytes, '\n', (size_t)n) : NULL;
	second = end ? memchr(end + 1, '\n', (size_t)(bytes + n - end - 1)) : NULL;
	if (!second || !text_is_utf8(bytes, (size_t)(second - bytes)) ||
	    memchr(bytes, '\0', (size_t)(second - bytes)))
		return NULL;
	names = json_array();
	fields = split_line(bytes, (size_t)(end - bytes), names);
	if (fields < 2 || fields > FIELDS_MAX ||
	    split_line(end + 1, (size_t)(second - end - 1), NULL) != fields) {
		json_decref(names);
		return NULL;
	}
	return names;
}

static void add_schema(struct export_run *x, const struct content_id *id, json_t *facets)
{
	json_t *names = columns_of(x, id), *fields, *name;
	size_t i;

	if (!names)
		return;
	fields = json_array();
	json_array_foreach(names, i, name)
	{
		json_array_append_new(fields, json_pack("{s:O}", "name", name));
	}
	json_decref(names);
	json_object_set_new(facets, "schema",
			    facet("1-2-0/SchemaDatasetFacet.json#/$defs/SchemaDatasetFacet",
				  "{s:o}", "fields", fields));
}

/* Namespace and name of a URI's data (OpenLineage, "Naming"): s3://bucket + key; file + path. */
static void name_of_origin(struct arena *a, const char *origin, const char **ret_namespace,
			   const char **ret_name)
{
	const char *uri = export_uri(a, origin), *slashes = strstr(uri, "://"),
		   *path = slashes ? strchr(slashes + 3, '/') : NULL;

	*ret_namespace = path ? arena_strndup(a, uri, (size_t)(path - uri))
			 : str_has_prefix(uri, "file:") ? "file"
							: uri;
	*ret_name = path && path[1]                          ? path + 1
		    : str_has_prefix(uri, "file:") && uri[5] ? uri + 5
							     : uri;
}

static json_t *dataset(struct writer *w, const char *name, const struct content_id *id, bool made)
{
	struct arena *a = w->x->arena;
	const struct run_input_row *pin = made ? NULL : export_input(w->x, id);
	const char *output, *space = w->job_namespace, *called, *uri;
	const struct facts_task *maker = export_maker(w->x, id, &output);
	json_t *o = json_object(), *facets = json_object();

	called = maker ? arena_printf(a, "%s.%s.%s", w->x->run->pipeline, maker->task, output)
		       : arena_printf(a, "%s.%s", w->x->run->pipeline, name);
	uri = arena_printf(a, "urn:cairn:content:sha256:%s", export_hex(a, &id->digest));
	if (pin) {
		name_of_origin(a, pin->origin, &space, &called);
		uri = export_uri(a, pin->origin);
	}
	json_object_set_new(
		facets, "version",
		facet("1-0-1/DatasetVersionDatasetFacet.json#/$defs/DatasetVersionDatasetFacet",
		      "{s:s+}", "datasetVersion", "sha256:", export_hex(a, &id->digest)));
	json_object_set_new(facets, "dataSource",
			    facet("1-0-1/DatasourceDatasetFacet.json#/$defs/DatasourceDatasetFacet",
				  "{s:o, s:o}", "name", facts_text(space), "uri", facts_text(uri)));
	add_schema(w->x, id, facets);
	if (made)
		json_object_set_new(facets, "lifecycleStateChange",
				    facet("1-0-1/LifecycleStateChangeDatasetFacet.json#/$defs/"
					  "LifecycleStateChangeDatasetFacet",
					  "{s:s}", "lifecycleStateChange", "CREATE"));
	json_object_set_new(o, "namespace", facts_text(space));
	json_object_set_new(o, "name", facts_text(called));
	json_object_set_new(o, "facets", facets);
	if (made && content_is_file(id))
		json_object_set_new(
			o, "outputFacets",
			json_pack("{s:o}", "outputStatistics",
				  facet("1-0-2/OutputStatisticsOutputDatasetFacet.json#/$defs/"
					"OutputStatisticsOutputDatasetFacet",
					"{s:I, s:i}", "size", (json_int_t)id->size_bytes,
					"fileCount", 1)));
	return o;
}

static json_t *datasets(struct writer *w, const struct named_content *v, size_t n, bool made)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, dataset(w, v[i].name, &v[i].id, made));
	return list;
}

/* Runs and jobs. */

static json_t *job(struct writer *w, const char *name, bool is_task)
{
	const struct run_row *run = w->x->run;
	json_t *o = json_object(), *facets = json_object(), *f;

	json_object_set_new(facets, "jobType",
			    facet("2-0-4/JobTypeJobFacet.json#/$defs/JobTypeJobFacet",
				  "{s:s, s:s, s:s}", "processingType", "BATCH", "integration",
				  "CAIRN", "jobType", is_task ? "TASK" : "PIPELINE"));
	if (run->git.remote && *run->git.remote) {
		f = facet("1-1-0/SourceCodeLocationJobFacet.json#/$defs/SourceCodeLocationJobFacet",
			  "{s:s, s:o, s:o}", "type", "git", "url", facts_text(run->git.remote),
			  "repoUrl", facts_text(run->git.remote));
		if (run->path)
			json_object_set_new(f, "path", facts_text(run->path));
		if (run->git.commit)
			json_object_set_new(f, "version", facts_text(run->git.commit));
		json_object_set_new(facets, "sourceCodeLocation", f);
	}
	json_object_set_new(o, "namespace", facts_text(w->job_namespace));
	json_object_set_new(o, "name", facts_text(name));
	json_object_set_new(o, "facets", facets);
	return o;
}

static json_t *params_facet(struct writer *w)
{
	json_t *list = json_array(), *v;
	const char *name;

	json_object_foreach(w->x->params, name, v)
	{
		_cleanup_(str_deinit) struct str s = { 0 };

		json_add_canonical(&s, v);
		json_array_append_new(
			list,
			json_pack("{s:s, s:o}", "key", name, "value",
				  json_is_string(v) ? json_incref(v) : json_stringn(s.s, s.len)));
	}
	return facet("1-0-0/ExecutionParametersRunFacet.json#/$defs/ExecutionParametersRunFacet",
		     "{s:o}", "parameters", list);
}

static json_t *run_json(struct writer *w, const char *uuid, const struct attempt_record *a,
			const char *message)
{
	const struct export_run *x = w->x;
	json_t *facets = json_object();

	json_object_set_new(
		facets, "processing_engine",
		facet("1-1-1/ProcessingEngineRunFacet.json#/$defs/ProcessingEngineRunFacet",
		      "{s:s, s:s}", "version", CAIRN_VERSION, "name", "cairn"));
	if (x->run->nominal_ns)
		json_object_set_new(facets, "nominalTime",
				    facet("1-0-1/NominalTimeRunFacet.json#/$defs/"
					  "NominalTimeRunFacet",
					  "{s:s}", "nominalStartTime",
					  export_time(x->arena, x->run->nominal_ns)));
	if (a)
		json_object_set_new(facets, "parent",
				    facet("1-2-0/ParentRunFacet.json#/$defs/ParentRunFacet",
					  "{s:{s:s}, s:{s:o, s:o}}", "run", "runId",
					  export_uuid(x->arena, "run", x->run, 0), "job",
					  "namespace", facts_text(w->job_namespace), "name",
					  facts_text(x->run->pipeline)));
	else if (json_object_size(x->params))
		json_object_set_new(facets, "executionParameters", params_facet(w));
	if (message)
		json_object_set_new(
			facets, "errorMessage",
			facet("1-0-1/ErrorMessageRunFacet.json#/$defs/ErrorMessageRunFacet",
			      "{s:o, s:s}", "message", facts_text(message), "programmingLanguage",
			      "unknown"));
	return json_pack("{s:s, s:o}", "runId", uuid, "facets", facets);
}

/* Events. */

struct event {
	const char *type;
	int64_t at_ns;
	json_t *run, *job, *inputs, *outputs; /* NULL lists: empty */
};

/* Takes what the event has. */
static void add_event(struct writer *w, const struct event *e)
{
	json_t *o = json_object();

	json_object_set_new(o, "eventTime", json_string(export_time(w->x->arena, e->at_ns)));
	json_object_set_new(o, "producer", json_string(EXPORT_PRODUCER));
	json_object_set_new(o, "schemaURL",
			    json_string(SPEC "2-0-2/OpenLineage.json#/$defs/RunEvent"));
	json_object_set_new(o, "eventType", json_string(e->type));
	json_object_set_new(o, "run", e->run);
	json_object_set_new(o, "job", e->job);
	json_object_set_new(o, "inputs", e->inputs ? e->inputs : json_array());
	json_object_set_new(o, "outputs", e->outputs ? e->outputs : json_array());
	json_array_append_new(w->events, o);
}

static void add_attempt(struct writer *w, const struct attempt_record *a)
{
	const struct export_run *x = w->x;
	const char *uuid = export_uuid(x->arena, "attempt", x->run, a->row.id),
		   *name = arena_printf(x->arena, "%s.%s", x->run->pipeline, a->row.task);
	const char *why = export_problem(x, &a->row);

	add_event(w, &(struct event){ .type = "START",
				      .at_ns = a->row.started_ns,
				      .run = run_json(w, uuid, a, NULL),
				      .job = job(w, name, true),
				      .inputs = datasets(w, a->inputs, a->n_inputs, false) });
	add_event(w, &(struct event){ .type = why ? "FAIL" : "COMPLETE",
				      .at_ns = export_ended_ns(x, &a->row),
				      .run = run_json(w, uuid, a, why),
				      .job = job(w, name, true),
				      .inputs = datasets(w, a->inputs, a->n_inputs, false),
				      .outputs = datasets(w, a->outputs, a->n_outputs, true) });
}

/* Attempts run in parallel, so sort by the events' time as text. Events of one instant may keep any
 * order. */
static int by_time(const void *pa, const void *pb)
{
	return strcmp(json_string_value(json_object_get(*(json_t *const *)pa, "eventTime")),
		      json_string_value(json_object_get(*(json_t *const *)pb, "eventTime")));
}

int export_openlineage(struct export_run *x, const char *job_namespace, json_t **ret,
		       struct err *err)
{
	struct writer w = { .x = x,
			    .job_namespace = job_namespace ? job_namespace : "cairn",
			    .events = json_array() };
	const struct run_row *run = x->run;
	const char *uuid = export_uuid(x->arena, "run", run, 0), *message = NULL;
	json_t **v;
	size_t n;

	if (run->state != RUN_SUCCEEDED)
		message = run->message ? run->message : run_state_name(run->state);
	add_event(&w, &(struct event){ .type = "START",
				       .at_ns = run->started_ns,
				       .run = run_json(&w, uuid, NULL, NULL),
				       .job = job(&w, run->pipeline, false) });
	for (size_t i = 0; i < x->n_attempts; i++)
		add_attempt(&w, &x->attempts[i]);
	add_event(&w, &(struct event){ .type = run->state == RUN_SUCCEEDED ? "COMPLETE"
					       : run->state == RUN_FAILED  ? "FAIL"
									   : "ABORT",
				       .at_ns = run->ended_ns,
				       .run = run_json(&w, uuid, NULL, message),
				       .job = job(&w, run->pipeline, false) });
	n = json_array_size(w.events);
	v = arena_alloc(x->arena, n * sizeof(json_t *));
	for (size_t i = 0; i < n; i++)
		v[i] = json_array_get(w.events, i);
	/* The run's own events stay outermost, even when clocks were set meanwhile. */
	qsort(v + 1, n - 2, sizeof(json_t *), by_time);
	*ret = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append(*ret, v[i]);
	json_decref(w.events);
	return 0;
}
