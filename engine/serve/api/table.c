/* engine/serve/api/table.c — every path of the API, with its parameters and answers.
 *
 * Requests are checked against this table (api.c), and OpenAPI is made from it (openapi.c), so what
 * the description promises is what is checked. Only constants.
 *
 * Who may ask a path follows from its flags, and api_role() refuses what says nothing: a path that
 * isn't a GET needs one of API_CHANGES, API_ADMIN, API_SIGNED, API_OPEN, API_ASKS.
 */
#include "serve/internal.h"

/* clang-format off */
#define PARAMS(...) .params = (const struct api_param[]){ __VA_ARGS__, { 0 } }
#define LIMIT \
	{ "limit", API_QUERY, \
	  "{\"type\":\"integer\",\"minimum\":1,\"maximum\":500,\"default\":50}", \
	  "At most this many" }
#define CURSOR \
	{ "cursor", API_QUERY, \
	  "{\"type\":\"integer\",\"minimum\":1,\"maximum\":4611686018427387903}", \
	  "The `next` of the previous page" }
#define CURSOR_OF_FIRINGS \
	{ "cursor", API_QUERY, "{\"type\":\"string\",\"pattern\":\"^[1-9][0-9]*(/.+)?$\"}", \
	  "The `next` of the previous page" }
#define TEXT   "{\"type\":\"string\"}"
/* What lineage_find() accepts: digest_prefix_range(). */
#define DIGEST "{\"type\":\"string\",\"pattern\":\"^(sha256:)?[0-9a-f]{4,64}$\"}"
#define TIME   "{\"type\":\"string\",\"format\":\"date-time\"}"
#define WHICH \
	{ "path", API_QUERY, TEXT, "The pipeline file, when several have a schedule of that name" }
#define OFFSET \
	{ "offset", API_QUERY, "{\"type\":\"integer\",\"default\":0}", \
	  "The first byte; a negative one counts from the end" }
#define BYTES \
	{ "bytes", API_QUERY, \
	  "{\"type\":\"integer\",\"minimum\":1,\"maximum\":1048576,\"default\":1048576}", \
	  "At most this many" }
#define PATH { "path", API_QUERY, TEXT, "A file or directory in it" }
#define FROM \
	{ "offset", API_QUERY, \
	  "{\"type\":\"integer\",\"minimum\":0,\"maximum\":4611686018427387903,\"default\":0}", \
	  "The first one" }
#define LOG_OF \
	{ "task", API_QUERY, TEXT, "A task, or a step that has one (required)" }, \
	{ "attempt", API_QUERY, "{\"type\":\"integer\",\"minimum\":1,\"maximum\":4294967295}", \
	  "Its nth attempt; default: the last" }
#define RANK \
	{ "rank", API_QUERY, "{\"type\":\"integer\",\"minimum\":0,\"maximum\":4294967295}", \
	  "Only what this rank of a distributed step printed" }
#define READS  (API_PROJECT | API_DB)
/* clang-format on */

const struct api_route api_routes[] = {
	{ "GET", "/healthz", "healthz", "The process is alive and makes progress", API_HEALTH,
	  api_healthz, .status = 200, .answer = "Health" },
	{ "GET", "/readyz", "readyz", "Everything that the server needs is available", API_HEALTH,
	  api_readyz, .status = 200, .answer = "Readiness" },
	{ "GET", "/metrics", "metrics", "Counters and gauges, as OpenMetrics", 0, api_metrics,
	  .status = 200, .answer = "application/openmetrics-text; version=1.0.0; charset=utf-8" },
	{ "GET", "/api/v1", "index", "What this is", 0, api_index, .status = 200,
	  .answer = "Index" },
	{ "GET", "/api/v1/openapi.json", "openapi", "This description", 0, api_openapi_json,
	  .status = 200, .answer = "OpenAPI" },
	{ "GET", "/api/v1/projects", "projects", "The projects that are served", 0, api_projects,
	  .status = 200, .answer = "Projects" },
	{ "GET", "/api/v1/runs", "runs", "Runs, newest first", READS, api_runs,
	  PARAMS({ "pipeline", API_QUERY, TEXT, "Only of this pipeline" },
		 { "state", API_QUERY,
		   "{\"type\":\"string\",\"enum\":[\"running\",\"died\",\"succeeded\",\"failed\","
		   "\"cancelled\",\"interrupted\"]}",
		   "Only in this state" },
		 { "schedule", API_QUERY, TEXT, "Only those that this schedule made" },
		 { "since", API_QUERY, TIME, "Started then or later" },
		 { "until", API_QUERY, TIME, "Started before" },
		 { "param", API_QUERY, TEXT,
		   "Only where it holds: lr=0.1, lr>0.01, optimizer!=sgd" },
		 { "metric", API_QUERY, TEXT, "Likewise of a metric: accuracy>=0.9" },
		 { "tag", API_QUERY, TEXT, "Only the run of this name" },
		 { "commit", API_QUERY, TEXT, "Only of this git commit, or the beginning of one" },
		 { "q", API_QUERY, TEXT,
		   "Only with this text in its id, hash, pipeline, path, params, message, commit, "
		   "schedule or tags. A page looks at 4,000 runs at most, so it may be empty and "
		   "have a next one" },
		 { "metrics", API_QUERY, TEXT,
		   "Names, with commas between them: each run gets `metrics` with their values" },
		 { "sort", API_QUERY, TEXT,
		   "By this metric, smallest first; -METRIC: largest first; one page" },
		 LIMIT, CURSOR),
	  .status = 200, .answer = "Runs" },
	{ "POST", "/api/v1/runs", "startRun",
	  "Run a pipeline of the project; it goes on as a process of its own",
	  API_PROJECT | API_CHANGES, api_run_start, .body = "RunRequest", .status = 202,
	  .answer = "Launched" },
	{ "POST", "/api/v1/handovers", "handOver",
	  "Accept a run that was prepared elsewhere; its content is in the store",
	  API_PROJECT | API_CHANGES, api_handover, .body = "Handover", .status = 202,
	  .answer = "HandedOver" },
	{ "GET", "/api/v1/runs/{run}", "run",
	  "One run, by its id, its hash or the beginning of one; `last`: the newest", READS,
	  api_run_one, .status = 200, .answer = "Run" },
	{ "GET", "/api/v1/runs/{run}/attempts", "attempts",
	  "Attempts, in the order of their starts", READS, api_run_attempts,
	  PARAMS({ "task", API_QUERY, TEXT, "Only of this task or step" }, LIMIT, CURSOR),
	  .status = 200, .answer = "Attempts" },
	{ "GET", "/api/v1/runs/{run}/tasks", "tasks",
	  "Every task that is known, also of a run that goes on: waiting ones and hits included",
	  READS, api_run_tasks,
	  PARAMS({ "step", API_QUERY, TEXT, "Only of this step" },
		 { "task", API_QUERY, TEXT, "Only this task" },
		 { "state", API_QUERY,
		   "{\"type\":\"string\",\"enum\":[\"waiting\",\"running\",\"executed\",\"hit\","
		   "\"failed\",\"skipped\",\"blocked\",\"cancelled\"]}",
		   "Only in this state" },
		 { "q", API_QUERY, TEXT, "Only with this text in its name" },
		 { "sort", API_QUERY,
		   "{\"type\":\"string\",\"enum\":[\"started\",\"-started\",\"duration\","
		   "\"-duration\",\"task\",\"-task\"]}",
		   "By this, smallest first; with `-` before it, largest first. Without it: in the "
		   "order of the pipeline" },
		 LIMIT, CURSOR),
	  .status = 200, .answer = "Tasks" },
	{ "GET", "/api/v1/runs/{run}/task", "runTask",
	  "One task: why it ran, what it was made of, what it read and made, its attempts", READS,
	  api_run_task,
	  PARAMS({ "task", API_QUERY, TEXT, "The task, or a step that has one (required)" }),
	  .status = 200, .answer = "TaskDetail" },
	{ "GET", "/api/v1/runs/{run}/series", "runSeries",
	  "Metrics over time that steps wrote (`series`)", READS, api_run_series,
	  PARAMS({ "task", API_QUERY, TEXT, "Only of this task or step" },
		 { "metric", API_QUERY, TEXT, "Only this one" },
		 { "points", API_QUERY,
		   "{\"type\":\"integer\",\"minimum\":2,\"maximum\":10000,\"default\":1000}",
		   "At most this many points of each; peaks stay" }),
	  .status = 200, .answer = "SeriesList" },
	{ "GET", "/api/v1/runs/{run}/graph", "runGraph",
	  "The run's steps, what they need, and how many of their tasks are in which state", READS,
	  api_run_graph, .status = 200, .answer = "Graph" },
	{ "GET", "/api/v1/runs/{run}/timeline", "runTimeline",
	  "When each task ran, which one it waited for and how long, and the critical path", READS,
	  api_run_timeline, .status = 200, .answer = "Timeline" },
	{ "GET", "/api/v1/runs/{run}/metrics", "runMetrics",
	  "Metrics of those tasks that have some", READS, api_run_metrics,
	  PARAMS({ "step", API_QUERY, TEXT, "Only of this step" },
		 { "task", API_QUERY, TEXT, "Only this task" }, LIMIT, CURSOR),
	  .status = 200, .answer = "RunMetrics" },
	{ "GET", "/api/v1/runs/{run}/log", "log",
	  "The log of a task. If it breaks off, the trailer Cairn-Problem says why, for a request "
	  "with TE: trailers",
	  READS, api_run_log,
	  PARAMS({ "task", API_QUERY, TEXT, "A task, or a step that has one (required)" },
		 { "attempt", API_QUERY,
		   "{\"type\":\"integer\",\"minimum\":1,\"maximum\":4294967295}",
		   "Its nth attempt; default: the last" },
		 { "follow", API_QUERY, "{\"type\":\"boolean\",\"default\":false}",
		   "Keep the stream open while the task runs" },
		 { "lines", API_QUERY,
		   "{\"type\":\"integer\",\"minimum\":1,\"maximum\":4294967295}",
		   "Only this many of the last lines; of a gang that is followed, this many of "
		   "each node" },
		 RANK, OFFSET, BYTES),
	  .status = 200, .answer = "text/plain; charset=utf-8" },
	{ "GET", "/api/v1/runs/{run}/log/range", "logRange",
	  "A part of a log as JSON text, with its place. Bytes that aren't UTF-8 are replaced. "
	  "With "
	  "`rank`: from `offset` on, at most so many `bytes` and `lines` of this rank",
	  READS, api_run_log_range,
	  PARAMS(LOG_OF, OFFSET, BYTES, RANK,
		 { "lines", API_QUERY,
		   "{\"type\":\"integer\",\"minimum\":1,\"maximum\":4294967295}",
		   "With `rank`: at most this many lines" }),
	  .status = 200, .answer = "LogRange" },
	{ "GET", "/api/v1/runs/{run}/log/index", "logIndex",
	  "How long a log is, where its lines are, and its first error", READS, api_run_log_index,
	  PARAMS(LOG_OF, RANK), .status = 200, .answer = "LogIndex" },
	{ "GET", "/api/v1/runs/{run}/log/search", "logSearch",
	  "Lines of a log that have a text. An answer covers 64 MiB, or half a second, at most",
	  READS, api_run_log_search,
	  PARAMS(LOG_OF, RANK, { "q", API_QUERY, TEXT, "The text (required)" },
		 { "regex", API_QUERY, "{\"type\":\"boolean\",\"default\":false}",
		   "`q` is a regular expression (PCRE2's) for one line" },
		 { "case", API_QUERY, "{\"type\":\"boolean\",\"default\":false}",
		   "Tell capital letters from small ones" },
		 { "offset", API_QUERY,
		   "{\"type\":\"integer\",\"minimum\":0,\"maximum\":4611686018427387903,"
		   "\"default\":0}",
		   "Begin here: the `next_offset` of the answer before" },
		 { "limit", API_QUERY,
		   "{\"type\":\"integer\",\"minimum\":1,\"maximum\":1000,\"default\":100}",
		   "At most this many lines" }),
	  .status = 200, .answer = "LogMatches" },
	{ "POST", "/api/v1/runs/{run}/cancel", "cancelRun", "Ask the run's engine to stop",
	  READS | API_CHANGES, api_run_cancel, .body = "CancelRequest", .status = 202,
	  .answer = "Cancelled" },
	{ "POST", "/api/v1/runs/{run}/approve", "approveStep",
	  "Answer a step that waits for a person", READS | API_CHANGES, api_run_approve,
	  .body = "Answer", .status = 200, .answer = "Answered" },
	{ "POST", "/api/v1/runs/{run}/resume", "resumeRun",
	  "Go on with a run that was stopped, failed or lost its engine", READS | API_CHANGES,
	  api_run_resume, .body = "Nothing", .status = 202, .answer = "Launched" },
	{ "GET", "/api/v1/runs/{run}/verdict", "verdict",
	  "What a reproduction found, as `cairn reproduce --json` prints it", READS,
	  api_run_verdict, .status = 200, .answer = "Verdict" },
	{ "POST", "/api/v1/reproductions", "reproduce",
	  "Execute a past run again and compare; a run that wasn't begun here needs `trust`",
	  READS | API_CHANGES, api_reproduce, .body = "Reproduction", .status = 202,
	  .answer = "Launched" },
	{ "GET", "/api/v1/compare", "compare",
	  "Two to fifty runs side by side, and why each differs from the first", READS, api_compare,
	  PARAMS({ "runs", API_QUERY, TEXT,
		   "Their ids, hashes or tags, with commas between them (required)" }),
	  .status = 200, .answer = "Comparison" },
	{ "GET", "/api/v1/pipelines", "pipelines",
	  "The pipeline files of the project, checked; their params, steps, sweeps, schedules",
	  API_PROJECT, api_pipelines, PARAMS({ "path", API_QUERY, TEXT, "Only this file" }),
	  .status = 200, .answer = "Pipelines" },
	{ "POST", "/api/v1/plans", "startPlan",
	  "Find out what a run would do, without executing anything; plans/{plan} has the answer",
	  API_PROJECT | API_CHANGES, api_plan_start, .body = "RunRequest", .status = 202,
	  .answer = "Launched" },
	{ "GET", "/api/v1/plans/{plan}", "plan",
	  "A plan, once it is made, as `cairn plan --json` prints it", API_PROJECT, api_plan,
	  .status = 200, .answer = "PlanAnswer" },
	{ "GET", "/api/v1/store", "store",
	  "How much is in the store, and what was saved week by week; at most five minutes old",
	  READS, api_store, .status = 200, .answer = "StoreFacts" },
	{ "POST", "/api/v1/estimates", "startEstimate",
	  "Find out what `cairn store gc` would free, without removing anything; "
	  "estimates/{estimate} has the answer",
	  API_PROJECT | API_CHANGES, api_estimate_start, .body = "Nothing", .status = 202,
	  .answer = "Launched" },
	{ "GET", "/api/v1/estimates/{estimate}", "estimate",
	  "What would be freed, once it is known, as `cairn store gc --dry-run --json` prints it",
	  API_PROJECT, api_estimate, .status = 200, .answer = "EstimateAnswer" },
	{ "GET", "/api/v1/cluster", "cluster",
	  "Attempts on the cluster that haven't ended, and what they wait for", READS, api_cluster,
	  .status = 200, .answer = "ClusterFacts" },
	{ "GET", "/api/v1/home", "home", "What needs attention, and the last seven days", READS,
	  api_home, .status = 200, .answer = "Home" },
	{ "GET", "/api/v1/launches/{launch}", "launch",
	  "A run that this server began, also before it has an id", READS, api_launch,
	  .status = 200, .answer = "Launch" },
	{ "GET", "/api/v1/content/{content}", "content", "What a content is, and who made it",
	  READS, api_content, PARAMS(PATH), .status = 200, .answer = "ContentFacts" },
	{ "GET", "/api/v1/content/{content}/entries", "contentEntries",
	  "What is in a directory, by name", READS, api_content_entries,
	  PARAMS(PATH,
		 { "limit", API_QUERY,
		   "{\"type\":\"integer\",\"minimum\":1,\"maximum\":1000,\"default\":50}",
		   "At most this many" },
		 CURSOR),
	  .status = 200, .answer = "Entries" },
	{ "GET", "/api/v1/content/{content}/bytes", "contentBytes",
	  "Bytes of a file, at most 1 MiB an answer", READS, api_content_bytes,
	  PARAMS(PATH, OFFSET, BYTES), .status = 200, .answer = "application/octet-stream" },
	{ "GET", "/api/v1/content/{content}/table", "contentTable",
	  "Rows of a CSV, TSV, JSON lines or NPY file; of its first 64 MiB", READS,
	  api_content_table,
	  PARAMS(PATH, FROM,
		 { "limit", API_QUERY,
		   "{\"type\":\"integer\",\"minimum\":1,\"maximum\":1000,\"default\":50}",
		   "At most this many" }),
	  .status = 200, .answer = "Table" },
	{ "GET", "/api/v1/content/{content}/shard", "contentShard",
	  "Samples of a WebDataset tar, and where their members are in it", READS,
	  api_content_shard, PARAMS(PATH, FROM, LIMIT), .status = 200, .answer = "Samples" },
	{ "GET", "/api/v1/lineage", "lineage", "The attempts that made content, or that used it",
	  READS, api_lineage,
	  PARAMS({ "content", API_QUERY, DIGEST,
		   "Begin at this: sha256: and a digest, or at least four digits of it" },
		 { "run", API_QUERY, TEXT, "Begin at a task of this run, by its id, hash or tag" },
		 { "task", API_QUERY, TEXT, "… at this task, or a step that has one" },
		 { "output", API_QUERY, TEXT, "… and at this output of it" },
		 { "metric", API_QUERY, TEXT,
		   "… or at the task that measured this; `task`: which, when several did" },
		 { "input", API_QUERY, TEXT, "… or at this input of the run's pipeline" },
		 { "file", API_QUERY, TEXT,
		   "Begin at what the newest run, or `run`, read or wrote at this path of the "
		   "project or URI; at the directory, where only that was read or written" },
		 { "direction", API_QUERY,
		   "{\"type\":\"string\",\"enum\":[\"up\",\"down\"],\"default\":\"up\"}",
		   "up: where it came from; down: what was made of it" },
		 { "depth", API_QUERY,
		   "{\"type\":\"integer\",\"minimum\":1,\"maximum\":10000,\"default\":10000}",
		   "At most this many attempts away" },
		 { "limit", API_QUERY,
		   "{\"type\":\"integer\",\"minimum\":1,\"maximum\":10000,\"default\":1000}",
		   "How many attempts at most" }),
	  .status = 200, .answer = "Lineage" },
	{ "GET", "/api/v1/schedules", "schedules",
	  "Every schedule, when it fires next, and its last firing", READS, api_schedules,
	  .status = 200, .answer = "Schedules" },
	{ "GET", "/api/v1/schedules/{schedule}/next", "scheduleNext", "The next nominal times",
	  API_PROJECT, api_schedule_next,
	  PARAMS(WHICH, { "n", API_QUERY,
			  "{\"type\":\"integer\",\"minimum\":1,\"maximum\":1000,\"default\":20}",
			  "How many" }),
	  .status = 200, .answer = "ScheduleNext" },
	{ "GET", "/api/v1/schedules/{schedule}/history", "scheduleHistory",
	  "Its firings, newest first", READS, api_schedule_history,
	  PARAMS({ "path", API_QUERY, TEXT, "Only of this pipeline file" }, LIMIT,
		 CURSOR_OF_FIRINGS),
	  .status = 200, .answer = "Firings" },
	{ "GET", "/api/v1/schedules/{schedule}/calendar", "scheduleCalendar",
	  "Its firings and its next nominal times between two times; at most a thousand of each",
	  READS, api_schedule_calendar,
	  PARAMS(WHICH,
		 { "from", API_QUERY, TIME, "Nominal times then or later; default: 31 days ago" },
		 { "to", API_QUERY, TIME, "Before then; default: in 31 days" }),
	  .status = 200, .answer = "Calendar" },
	{ "POST", "/api/v1/schedules/{schedule}/trigger", "triggerSchedule", "Fire now",
	  API_PROJECT | API_CHANGES, api_schedule_trigger, PARAMS(WHICH), .status = 202,
	  .answer = "Triggered" },
	{ "POST", "/api/v1/schedules/{schedule}/backfill", "backfillSchedule",
	  "Fire each nominal time of a range that has not succeeded, oldest first; the answer has "
	  "these times",
	  API_PROJECT | API_CHANGES, api_schedule_backfill, PARAMS(WHICH), .body = "Backfill",
	  .status = 200, .answer = "Backfilled" },
	{ "POST", "/api/v1/schedules/{schedule}/pause", "pauseSchedule",
	  "Stop firing until it is resumed", API_PROJECT | API_CHANGES, api_schedule_pause,
	  PARAMS(WHICH), .status = 200, .answer = "Paused" },
	{ "POST", "/api/v1/schedules/{schedule}/resume", "resumeSchedule",
	  "Fire again, without making up for missed times", API_PROJECT | API_CHANGES,
	  api_schedule_resume, PARAMS(WHICH), .status = 200, .answer = "Paused" },
	{ "GET", "/api/v1/session", "session", "Who asks, and what he may", API_OPEN, api_session,
	  .status = 200, .answer = "Session" },
	{ "POST", "/api/v1/session", "signIn", "Exchange a token for a session, kept in a cookie",
	  API_OPEN, api_sign_in, .body = "SignIn", .status = 200, .answer = "Session" },
	{ "DELETE", "/api/v1/session", "signOut", "End the session", API_OPEN, api_sign_out,
	  .status = 204 },
	{ "GET", "/api/v1/audit", "audit", "Who changed what, newest first", API_ADMIN, api_audit,
	  PARAMS(LIMIT, CURSOR), .status = 200, .answer = "Audit" },
	{ "POST", "/api/v1/views", "view",
	  "An address at which a browser can show content of the store: `base`, and a path in the "
	  "tree "
	  "or, for a file, a name. It is valid for an hour; ?download=1 saves the file",
	  API_PROJECT | API_ASKS, api_view_begin, .body = "ViewRequest", .status = 201,
	  .answer = "View" },
	{ "GET", "/api/v1/events", "events",
	  "What changes, as server-sent events: run, task (of the runs in `run`), schedule, reset "
	  "(read "
	  "everything again). Goes on behind the header Last-Event-ID",
	  0, api_events,
	  PARAMS({ "project", API_QUERY, TEXT, "Only of this project" },
		 { "run", API_QUERY, TEXT, "Runs whose tasks to tell, by id, separated by commas" },
		 { "last", API_QUERY, TEXT, "The last id, for clients that can't send headers" }),
	  .status = 200, .answer = "text/event-stream" },
	{ "POST", "/api/v1/hooks/{hook}", "deliver",
	  "Deliver an event to the schedule with this webhook. No token: the headers webhook-id, "
	  "webhook-timestamp and webhook-signature prove who sends it (Standard Webhooks 1.0.0). "
	  "The "
	  "same id again gives the same answer",
	  API_SIGNED, api_hook,
	  PARAMS({ "project", API_QUERY, TEXT, "When several projects have this webhook" }),
	  .status = 202, .answer = "Delivered" },
	{ 0 },
};
