/* Every path of the API, with what it takes and gives: requests are checked against this table, and OpenAPI is made of it. */
#include "serve/internal.h"

#define PARAMS(...) .params = (const struct api_param[]){ __VA_ARGS__, { 0 } }
#define LIMIT  { "limit", API_QUERY, "{\"type\":\"integer\",\"minimum\":1,\"maximum\":500,\"default\":50}", "How many at most" }
#define CURSOR { "cursor", API_QUERY, "{\"type\":\"integer\",\"minimum\":1,\"maximum\":4611686018427387903}", "What the page before gave as `next`" }
#define TEXT   "{\"type\":\"string\"}"
/* What lineage_find() takes: digest_prefix_range(). */
#define DIGEST "{\"type\":\"string\",\"pattern\":\"^(sha256:)?[0-9a-f]{4,64}$\"}"
#define TIME   "{\"type\":\"string\",\"format\":\"date-time\"}"
#define WHICH  { "path", API_QUERY, TEXT, "The pipeline file, when several have a schedule of that name" }
#define READS  (API_PROJECT | API_DB)

const struct api_route api_routes[] = {
	{ "GET", "/healthz", "healthz", "The process is alive, and what it does goes on", API_HEALTH, api_healthz, .status = 200, .answer = "Health" },
	{ "GET", "/readyz", "readyz", "Everything that it needs is at hand", API_HEALTH, api_readyz, .status = 200, .answer = "Readiness" },
	{ "GET", "/metrics", "metrics", "Counters and gauges, as OpenMetrics", 0, api_metrics, .status = 200,
	  .answer = "application/openmetrics-text; version=1.0.0; charset=utf-8" },
	{ "GET", "/api/v1", "index", "What this is", 0, api_index, .status = 200, .answer = "Index" },
	{ "GET", "/api/v1/openapi.json", "openapi", "This description", 0, api_openapi_json, .status = 200, .answer = "OpenAPI" },
	{ "GET", "/api/v1/projects", "projects", "The projects that are served", 0, api_projects, .status = 200, .answer = "Projects" },
	{ "GET", "/api/v1/runs", "runs", "Runs, newest first", READS, api_runs,
	  PARAMS({ "pipeline", API_QUERY, TEXT, "Only of this pipeline" },
		 { "state", API_QUERY, "{\"type\":\"string\",\"enum\":[\"running\",\"died\",\"succeeded\",\"failed\",\"cancelled\",\"interrupted\"]}", "Only in this state" },
		 { "schedule", API_QUERY, TEXT, "Only those that this schedule made" }, { "since", API_QUERY, TIME, "Started then or later" },
		 { "until", API_QUERY, TIME, "Started before" }, { "param", API_QUERY, TEXT, "Only where it holds: lr=0.1, lr>0.01, optimizer!=sgd" },
		 { "metric", API_QUERY, TEXT, "Likewise of a metric: accuracy>=0.9" }, { "tag", API_QUERY, TEXT, "Only the run of this name" },
		 { "commit", API_QUERY, TEXT, "Only of this git commit, or the beginning of one" },
		 { "sort", API_QUERY, TEXT, "By this metric, smallest first; -METRIC: largest first; one page" }, LIMIT, CURSOR),
	  .status = 200, .answer = "Runs" },
	{ "POST", "/api/v1/runs", "startRun", "Run a pipeline of the project; it goes on as a process of its own", API_PROJECT | API_CHANGES, api_run_start, .body = "RunRequest",
	  .status = 202, .answer = "Launched" },
	{ "POST", "/api/v1/handovers", "handOver", "Take a run that was prepared elsewhere; its content is in the store", API_PROJECT | API_CHANGES, api_handover,
	  .body = "Handover", .status = 202, .answer = "HandedOver" },
	{ "GET", "/api/v1/runs/{run}", "run", "One run, by its id, its hash or the beginning of one; `last`: the newest", READS, api_run_one, .status = 200, .answer = "Run" },
	{ "GET", "/api/v1/runs/{run}/attempts", "attempts", "What was executed, in the order of the starts", READS, api_run_attempts,
	  PARAMS({ "task", API_QUERY, TEXT, "Only of this task or step" }, LIMIT, CURSOR), .status = 200, .answer = "Attempts" },
	{ "GET", "/api/v1/runs/{run}/tasks", "tasks", "Tasks with what they gave, hits among them", READS, api_run_tasks,
	  PARAMS({ "step", API_QUERY, TEXT, "Only of this step" }, { "task", API_QUERY, TEXT, "Only this task" }, LIMIT, CURSOR), .status = 200, .answer = "Tasks" },
	{ "GET", "/api/v1/runs/{run}/metrics", "runMetrics", "Metrics of those tasks that have some", READS, api_run_metrics,
	  PARAMS({ "step", API_QUERY, TEXT, "Only of this step" }, { "task", API_QUERY, TEXT, "Only this task" }, LIMIT, CURSOR), .status = 200, .answer = "RunMetrics" },
	{ "GET", "/api/v1/runs/{run}/log", "log", "What a task printed; where it breaks off, the trailer Cairn-Problem says why to who says TE: trailers", READS, api_run_log,
	  PARAMS({ "task", API_QUERY, TEXT, "A task, or a step that has one (required)" },
		 { "attempt", API_QUERY, "{\"type\":\"integer\",\"minimum\":1,\"maximum\":4294967295}", "Its nth attempt; default: the last" },
		 { "follow", API_QUERY, "{\"type\":\"boolean\",\"default\":false}", "Go on while it runs" },
		 { "lines", API_QUERY, "{\"type\":\"integer\",\"minimum\":1,\"maximum\":4294967295}", "Only so many last lines; of a gang that is followed, of each node" },
		 { "rank", API_QUERY, "{\"type\":\"integer\",\"minimum\":0,\"maximum\":4294967295}", "Only what this rank of a distributed step printed" }),
	  .status = 200, .answer = "text/plain; charset=utf-8" },
	{ "POST", "/api/v1/runs/{run}/cancel", "cancelRun", "Ask the run's engine to stop", READS | API_CHANGES, api_run_cancel, .body = "CancelRequest", .status = 202,
	  .answer = "Cancelled" },
	{ "GET", "/api/v1/launches/{launch}", "launch", "A run that this server began, also before it has an id", API_PROJECT, api_launch, .status = 200, .answer = "Launch" },
	{ "GET", "/api/v1/lineage", "lineage", "Which attempts content came from, or went into", READS, api_lineage,
	  PARAMS({ "content", API_QUERY, DIGEST, "sha256: and a digest, or at least four digits of it (required)" },
		 { "direction", API_QUERY, "{\"type\":\"string\",\"enum\":[\"up\",\"down\"],\"default\":\"up\"}", "Where it came from, or what was made of it" },
		 { "limit", API_QUERY, "{\"type\":\"integer\",\"minimum\":1,\"maximum\":10000,\"default\":1000}", "How many attempts at most" }),
	  .status = 200, .answer = "Lineage" },
	{ "GET", "/api/v1/schedules", "schedules", "Every schedule, and when it fires next", API_PROJECT, api_schedules, .status = 200, .answer = "Schedules" },
	{ "GET", "/api/v1/schedules/{schedule}/next", "scheduleNext", "The next nominal times", API_PROJECT, api_schedule_next,
	  PARAMS(WHICH, { "n", API_QUERY, "{\"type\":\"integer\",\"minimum\":1,\"maximum\":1000,\"default\":20}", "How many" }), .status = 200, .answer = "ScheduleNext" },
	{ "GET", "/api/v1/schedules/{schedule}/history", "scheduleHistory", "What it did, newest first", READS, api_schedule_history,
	  PARAMS({ "path", API_QUERY, TEXT, "Only of this pipeline file" }, LIMIT, CURSOR), .status = 200, .answer = "Firings" },
	{ "POST", "/api/v1/schedules/{schedule}/trigger", "triggerSchedule", "Fire now", API_PROJECT | API_CHANGES, api_schedule_trigger, PARAMS(WHICH), .status = 202,
	  .answer = "Triggered" },
	{ "POST", "/api/v1/schedules/{schedule}/pause", "pauseSchedule", "Fire no more until it is resumed", API_PROJECT | API_CHANGES, api_schedule_pause, PARAMS(WHICH),
	  .status = 200, .answer = "Paused" },
	{ "POST", "/api/v1/schedules/{schedule}/resume", "resumeSchedule", "Go on, without a backlog", API_PROJECT | API_CHANGES, api_schedule_resume, PARAMS(WHICH),
	  .status = 200, .answer = "Paused" },
	{ 0 },
};

#define S	"{\"type\":\"string\"}"
#define S_NULL	"{\"type\":[\"string\",\"null\"]}"
#define T_NULL	"{\"type\":[\"string\",\"null\"],\"format\":\"date-time\"}"
#define N	"{\"type\":\"integer\"}"
#define N_NULL	"{\"type\":[\"integer\",\"null\"]}"
#define B	"{\"type\":\"boolean\"}"
#define NEXT	"\"next\":{\"type\":[\"string\",\"null\"],\"description\":\"The cursor of the next page; null: there is none\"}"
#define REF(name) "{\"$ref\":\"#/components/schemas/" name "\"}"
#define LIST(name) "{\"type\":\"array\",\"items\":" REF(name) "}"
#define OBJECT(required, properties) "{\"type\":\"object\",\"required\":[" required "],\"properties\":{" properties "}}"
#define CLOSED(properties) "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{" properties "}}"

const char api_schemas[] =
	"{\"Problem\":" OBJECT("\"type\",\"title\",\"status\",\"detail\"", "\"type\":" S ",\"title\":" S ",\"status\":" N ",\"detail\":" S)
	",\"Health\":" OBJECT("\"status\"",
		"\"status\":{\"enum\":[\"alive\",\"stuck\"]},\"stuck_s\":{\"type\":\"integer\",\"minimum\":0}")
	",\"Readiness\":" OBJECT("\"ready\",\"checks\"", "\"ready\":" B
			       ",\"checks\":{\"type\":\"array\",\"items\":" OBJECT("\"name\",\"ok\",\"detail\"", "\"name\":" S ",\"ok\":" B ",\"detail\":" S_NULL) "}")
	",\"Index\":" OBJECT("\"name\",\"version\",\"openapi\"", "\"name\":" S ",\"version\":" S ",\"openapi\":" S)
	",\"OpenAPI\":{\"type\":\"object\"}"
	",\"Projects\":" OBJECT("\"projects\"", "\"projects\":{\"type\":\"array\",\"items\":" OBJECT("\"project\",\"root\"", "\"project\":" S ",\"root\":" S) "}")
	",\"Counts\":" OBJECT("\"total\",\"executed\",\"hits\",\"failed\",\"skipped\",\"blocked\"", "\"total\":" N ",\"executed\":" N
			       ",\"hits\":" N ",\"failed\":" N ",\"skipped\":" N ",\"blocked\":" N)
	",\"Run\":" OBJECT("\"id\",\"hash\",\"pipeline\",\"path\",\"state\",\"started\",\"duration_ns\",\"params\",\"counts\",\"message\"",
			   "\"id\":" S ",\"hash\":" S_NULL ",\"pipeline\":" S ",\"path\":" S_NULL
			   ",\"state\":{\"enum\":[\"running\",\"died\",\"succeeded\",\"failed\",\"cancelled\",\"interrupted\"]},\"started\":" T_NULL
			   ",\"duration_ns\":" N ",\"saved_ns\":" N
			   ",\"params\":{\"type\":\"object\"},\"git_commit\":" S_NULL ",\"git_dirty\":" B ",\"counts\":" REF("Counts") ",\"message\":" S_NULL
			   ",\"reproduces\":" S_NULL ",\"tags\":{\"type\":\"array\",\"items\":" S "}")
	",\"Runs\":" OBJECT("\"runs\",\"next\"", "\"runs\":" LIST("Run") "," NEXT)
	",\"Attempt\":" OBJECT("\"id\",\"task\",\"step\",\"attempt\",\"state\",\"started\",\"duration_ns\",\"exit\",\"failure\",\"message\",\"reason\"",
			       "\"id\":" N ",\"task\":" S ",\"step\":" S ",\"attempt\":" N
			       ",\"state\":{\"enum\":[\"running\",\"lost\",\"succeeded\",\"failed\"]},\"started\":" T_NULL
			       ",\"duration_ns\":" N ",\"exit\":" N_NULL ",\"failure\":" S_NULL ",\"message\":" S_NULL ",\"reason\":" S_NULL
			       ",\"waiting\":" S_NULL ",\"image\":" S_NULL ",\"continues\":{\"type\":\"array\",\"items\":" N "}")
	",\"Attempts\":" OBJECT("\"attempts\",\"next\"", "\"attempts\":" LIST("Attempt") "," NEXT)
	",\"Content\":{\"type\":[\"object\",\"null\"],\"required\":[\"id\",\"kind\",\"size\"],\"properties\":{\"id\":" S
			       ",\"kind\":{\"enum\":[\"blob\",\"tree\"]},\"size\":" N "}}"
	",\"Metrics\":{\"type\":\"object\",\"additionalProperties\":{\"type\":[\"number\",\"null\"]}}"
	",\"Task\":" OBJECT("\"task\",\"step\",\"state\",\"key\",\"duration_ns\",\"outputs\",\"metrics\"",
			    "\"task\":" S ",\"step\":"
			    S ",\"state\":{\"enum\":[\"succeeded\",\"failed\",\"skipped\",\"blocked\",\"unknown\"]},\"key\":" S_NULL ",\"duration_ns\":" N
			    ",\"outputs\":{\"type\":\"object\",\"additionalProperties\":" REF("Content") "},\"metrics\":" REF("Metrics"))
	",\"Tasks\":" OBJECT("\"tasks\",\"next\"", "\"tasks\":" LIST("Task") "," NEXT)
	",\"RunMetrics\":" OBJECT("\"metrics\",\"next\"", "\"metrics\":{\"type\":\"object\",\"additionalProperties\":" REF("Metrics") "}," NEXT)
	",\"RunRequest\":" CLOSED("\"pipeline\":{\"type\":\"string\",\"description\":\"Its file, from the project's root\",\"default\":\"pipeline.yaml\"},"
				  "\"params\":{\"type\":\"object\",\"maxProperties\":100,\"additionalProperties\":{\"type\":[\"string\",\"number\",\"boolean\"]}},"
				  "\"steps\":{\"type\":\"array\",\"maxItems\":100,\"items\":" S "},\"keep_going\":{\"type\":\"boolean\",\"default\":false}")
	",\"Handover\":{\"type\":\"object\",\"required\":[\"request\",\"store\",\"pipeline\",\"path\",\"files\",\"params\",\"options\",\"inputs\"],\"properties\":{"
			    "\"request\":{\"type\":\"string\",\"pattern\":\"^[0-9a-f]{32}$\",\"description\":\"Made by who asks: asked for twice, there is one run\"},"
			    "\"store\":{\"type\":\"string\",\"description\":\"Where the content was put\"},\"pipeline\":" S ",\"path\":" S ",\"files\":" REF("ContentId")
			    ",\"params\":{\"type\":\"object\"},\"options\":{\"type\":\"object\"},\"inputs\":{\"type\":\"array\",\"maxItems\":20000,\"items\":{\"type\":\"object\"},"
			    "\"description\":\"Of each {name, origin, content}; the name begins with input: or code:\"},"
			    "\"git\":{\"type\":\"object\",\"description\":\"{commit, dirty, remote, submodules}\"}}}"
	",\"ContentId\":" OBJECT("\"id\",\"kind\",\"size\"", "\"id\":" S ",\"kind\":{\"enum\":[\"blob\",\"tree\",\"reference\"]},\"size\":{\"type\":\"integer\",\"minimum\":0}")
	",\"HandedOver\":" OBJECT("\"run\",\"project\",\"new\"", "\"run\":" S ",\"project\":" S ",\"new\":" B)
	",\"Launched\":" OBJECT("\"launch\",\"project\"", "\"launch\":" S ",\"project\":" S)
	",\"Launch\":" OBJECT("\"launch\",\"project\",\"state\",\"pid\",\"started\",\"ended\",\"exit\",\"run\",\"run_state\",\"problem\"",
			      "\"launch\":" S ",\"project\":" S ",\"state\":{\"enum\":[\"running\",\"ended\"]},\"pid\":" N ",\"started\":" T_NULL
			      ",\"ended\":" T_NULL ",\"exit\":" N_NULL
			      ",\"run\":" S_NULL ",\"run_state\":" S_NULL ",\"problem\":" S_NULL)
	",\"CancelRequest\":" CLOSED("\"now\":{\"type\":\"boolean\",\"default\":false,\"description\":\"Don't wait for tasks to end in order\"}")
	",\"Cancelled\":" OBJECT("\"run\",\"now\"", "\"run\":" S ",\"now\":" B)
	",\"Lineage\":" OBJECT("\"artifact\",\"nodes\",\"edges\",\"truncated\"",
			       "\"artifact\":" S ",\"nodes\":{\"type\":\"array\",\"items\":" OBJECT("\"id\",\"kind\"", "\"id\":" S
			       ",\"kind\":{\"enum\":[\"artifact\",\"attempt\"]}") "},"
			       "\"edges\":{\"type\":\"array\",\"items\":" OBJECT("\"from\",\"to\",\"name\"", "\"from\":" S ",\"to\":" S ",\"name\":" S) "},\"truncated\":" B)
	",\"Schedule\":" OBJECT("\"schedule\",\"path\",\"pipeline\",\"cron\",\"timezone\",\"next\",\"paused\",\"open\",\"broken\"",
				"\"schedule\":" S ",\"path\":" S ",\"pipeline\":" S ",\"cron\":" S_NULL ",\"timezone\":" S_NULL ",\"overlap\":" S_NULL ",\"catch_up\":" S_NULL
				",\"dst\":" S_NULL ",\"next\":" T_NULL ",\"paused\":" T_NULL ",\"open\":" N ",\"broken\":" B)
	",\"Schedules\":" OBJECT("\"schedules\"", "\"schedules\":" LIST("Schedule"))
	",\"ScheduleNext\":" OBJECT("\"schedule\",\"path\",\"next\"", "\"schedule\":" S ",\"path\":" S ",\"next\":{\"type\":\"array\",\"items\":" S "}")
	",\"Firing\":" OBJECT("\"schedule\",\"path\",\"nominal\",\"cause\",\"state\",\"number\",\"run\",\"message\"",
			      "\"schedule\":" S ",\"path\":" S ",\"nominal\":" T_NULL ",\"cause\":" S ",\"state\":" S ",\"number\":" N
			      ",\"claimed\":" T_NULL ",\"started\":" T_NULL
			      ",\"ended\":" T_NULL ",\"run\":" S_NULL ",\"message\":" S_NULL ",\"times\":" N ",\"first\":" T_NULL)
	",\"Firings\":" OBJECT("\"firings\",\"next\"", "\"firings\":" LIST("Firing") "," NEXT)
	",\"Triggered\":" OBJECT("\"schedule\",\"path\",\"nominal\"", "\"schedule\":" S ",\"path\":" S ",\"nominal\":" T_NULL)
	",\"Paused\":" OBJECT("\"schedule\",\"path\",\"paused\"", "\"schedule\":" S ",\"path\":" S ",\"paused\":" B)
	"}";
