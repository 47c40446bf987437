/* engine/cli/commands.c — the table of all commands.
 *
 * Whoever writes a command keeps its entry true: help, man page, completion and the check of the
 * command line are made from it. The order is that of `cairn --help`: from the first thing that a
 * newcomer does to the last. Subcommands stand in tables of their own, those of `schedule` in
 * serve/commands_schedule.c. Options that several commands share are macros of command_table.h.
 *
 * A plain list without code.
 */
#include "cli/cli.h"
#include "cli/command_table.h"
#include "cli/help/templates.h"

const struct cli_option cli_global_options[] = {
	{ 'C', "directory", "DIR", "work as if started in DIR", .complete = COMPLETE_DIR },
	{ 'q', "quiet", NULL, "only errors and results", .repeats = true },
	{ 'v', "verbose", NULL, "more detail; twice for still more", .repeats = true },
	{ 0, "color", "WHEN", "colour: auto, always or never", .choices = "auto|always|never",
	  .complete = COMPLETE_CHOICE },
	{ 'h', "help", NULL, "show this help" },
	{ 0 },
};
const struct cli_option cli_json_option = { 0, "json", NULL, "print facts as one JSON document" };

static const struct cli_command store_commands[] = {
	{ "verify", "read everything in the store back and check it", "", 0, 0,
	  "Reads every object of the store: digests of content, records, and whether what they "
	  "name is there. A damaged copy is set aside, so that the next run that needs it makes it "
	  "again. With a shared store both sides are read: a damaged copy here is fetched anew, "
	  "and one there is sent anew when it is sound here.\n\n"
	  "Inputs that runs of this project took by reference are asked for at their origins: what "
	  "has changed there, is gone, or can't be reached is said and counted, but is no problem "
	  "of the store.",
	  OPTIONS({ 0, "sample", "PART",
		    "of a shared store read only so much: 5%, or 0.05; another part each time" },
		  OPT_STORE),
	  .json = "{\"objects\": N, \"problems\": [{\"space\", \"name\", \"problem\"}], "
		  "\"repaired\": N, \"nondeterminism\": [{\"key\", \"task\"}], \"origins\": "
		  "{\"unchanged\": N, \"changed\": N, \"gone\": N, \"unreachable\": N, "
		  "\"problems\": [{\"uri\", \"state\", \"why\"}]}}",
	  EXIT_CODES({ 0, "everything is sound, or was repaired" },
		     { 1, "problems were found; each was printed" }),
	  EXAMPLES({ "cairn store verify", "check all content" }), .run = cmd_store_verify },
	{ "gc", "remove content that no run needs any more", "", 0, 0,
	  "Keeps what the newest runs, running runs and the cache need; see `retention` in "
	  "cairn.yaml. Something is removed only when two looks, at least an hour apart, both "
	  "found it unused: the first `gc` marks, a later one sweeps.\n\n"
	  "Of a shared store the bucket is collected: runs that others made are kept by the same "
	  "rules, and nothing goes that a process which is at work anywhere may rely on. The "
	  "directory in front of it is bounded by `cache_size`.",
	  OPTIONS({ 'n', "dry-run", NULL, "say what would be removed, remove nothing" },
		  { 0, "keep-runs", "N", "keep the newest N runs of each pipeline" },
		  { 0, "keep", "DURATION", "keep runs that are younger, such as 30d" },
		  { 0, "grace", "DURATION", "never remove what is younger (default 1h)" },
		  OPT_STORE),
	  .json = "{\"deleted\": N, \"deleted_bytes\": N, \"dry_run\": BOOL, \"live\": N, "
		  "\"condemned\": N, \"sweep_after\": TIME|null, \"lost\": N manifests and trees "
		  "of kept "
		  "runs that are missing or damaged}",
	  EXAMPLES({ "cairn store gc --dry-run", "how much could be freed" },
		   { "cairn store gc --keep 30d", "forget older runs" }),
	  .run = cmd_store_gc },
	{ "push", "send runs to the shared store", "[RUN...]", 0, CLI_ANY,
	  "Sends what the shared store lacks of these runs: manifest, results, content, and the "
	  "records that make it a hit elsewhere. Without RUN: everything that the local store has. "
	  "`cairn run` does it by itself; this makes good what could not be sent, or was made "
	  "before the store was shared.",
	  OPTIONS({ 0, "unsent", NULL,
		    "only what runs left that were killed, or found the store away" },
		  OPT_STORE),
	  .json = "{\"objects\": N, \"bytes\": N, \"sent_bytes\": N, \"requests\": N, \"skipped\": "
		  "N, \"missing\": N}",
	  EXIT_CODES({ 0, "the shared store has all of it" },
		     { 1, "something is missing here, too" }),
	  EXAMPLES({ "cairn store push", "share everything" },
		   { "cairn store push last", "share the newest run" }),
	  .complete = COMPLETE_RUN, .run = cmd_store_push },
	{ "pull", "fetch runs from the shared store", "[RUN...]", 0, CLI_ANY,
	  "Brings runs and all that they name here, so that they can be used without the network. "
	  "RUN is a run of this project, or a run hash, or the beginning of one, of any run in the "
	  "shared store. Without RUN: everything that the shared store has.",
	  OPTIONS(OPT_STORE), .json = "{\"objects\": N, \"fetched\": N, \"missing\": N}",
	  EXIT_CODES({ 0, "all of it is here" }, { 1, "something is missing in the shared store" }),
	  EXAMPLES({ "cairn store pull 1f0c9b", "a colleague's run" }), .complete = COMPLETE_RUN,
	  .run = cmd_store_pull },
	{ "probe", "try what the shared store can do", "", 0, 0,
	  "Tries with objects of its own whether the shared store makes objects only when they are "
	  "absent, checks bodies against digests, deletes under a condition and answers to ranges, "
	  "and how far the two clocks are apart. The store works without any of these; with them "
	  "it needs fewer bytes.",
	  OPTIONS(OPT_STORE),
	  .json = "{\"if_absent\": BOOL, \"checks_body\": BOOL, \"delete_if\": BOOL, \"ranges\": "
		  "BOOL, \"clock_skew_ms\": N}",
	  EXAMPLES({ "cairn store probe", "is this bucket fit?" }), .run = cmd_store_probe },
	{ "reindex", "build the database anew from what the store has", "", 0, 0,
	  "Reads every run manifest in the store, and in the shared store behind it, and builds "
	  "the database of runs, metrics, lineage and names out of them: after the database was "
	  "lost or damaged, or to know the runs of colleagues. The old database stays as "
	  "cairn.db.before-reindex; what only it has (runs that haven't ended, or whose manifests "
	  "were collected; schedules) is taken along when it can be read.",
	  OPTIONS(OPT_STORE),
	  .json = "{\"runs\": N, \"attempts\": N, \"tags\": N, \"carried\": N, \"superseded\": N, "
		  "\"damaged\": N, \"renumbered\": BOOL}",
	  EXIT_CODES({ 0, "done" },
		     { 1, "done, but manifests that can't be read were left out; each was named" },
		     { 4, "a run is going on, or the store can't be read" }),
	  EXAMPLES({ "cairn store reindex", "all runs that the store knows" }),
	  .run = cmd_store_reindex },
	{ "stat", "what the store holds, in numbers", "", 0, 0,
	  "Counts objects and bytes by kind, and what crashes left behind.", OPTIONS(OPT_STORE),
	  .json = "{\"blobs\": {\"objects\", \"bytes\"}, \"trees\", \"actions\", \"runs\", "
		  "\"tags\", \"temporaries\", \"set_aside\", \"uri\", \"shared\"}",
	  EXAMPLES({ "cairn store stat", "objects and bytes" }), .run = cmd_store_stat },
	{ 0 },
};

static const struct cli_command secret_commands[] = {
	{ "set", "keep a secret for steps that ask for it", "NAME", 1, 1,
	  "Reads the value from standard input, or asks for it without echo on a terminal. One "
	  "newline at the end is dropped. The value is kept in .cairn/secrets/NAME, which only its "
	  "owner may read. It is never keyed or stored with results, and logs show *** instead of "
	  "it. A value needs 4 bytes at least, since logs can't be kept free of a shorter one.",
	  EXAMPLES({ "cairn secret set REGISTRY_TOKEN", "asks for the value" },
		   { "cairn secret set REGISTRY_TOKEN <token.txt", "takes it from a file" }),
	  .run = cmd_secret_set },
	{ "list", "names of the secrets that are kept", "", 0, 0,
	  "Names only. Secrets of the environment (CAIRN_SECRET_NAME) are listed too.",
	  .json = "{\"secrets\": [{\"name\", \"source\": \"environment\"|\"file\"}]}",
	  EXAMPLES({ "cairn secret list", "which are there" }), .run = cmd_secret_list },
	{ "rm", "forget secrets", "NAME...", 1, CLI_ANY, "Removes the file that holds the value.",
	  EXAMPLES({ "cairn secret rm REGISTRY_TOKEN", "" }), .run = cmd_secret_rm },
	{ 0 },
};

const struct cli_command cli_commands[] = {
	{ "init", "make this directory a project, with a pipeline to start from", "[DIR]", 0, 1,
	  "Writes cairn.yaml, a pipeline.yaml that runs as it is, the .cairn/ directory for the "
	  "project's state with the JSON Schema that editors use for pipeline files, and adds "
	  ".cairn/ to .gitignore. What is there already is left as it is; only the schema is that "
	  "of this version afterwards.\n"
	  "\n"
	  "--template begins with a whole pipeline, its code and sample data. Each runs in seconds "
	  "with nothing but python3, and its comments say what to change for data of your own:\n"
	  "  hello                 two steps in shell (default)\n"
	  "  image-classification  shard, augment, train, evaluate with a gate\n"
	  "  tabular               a CSV table: cross-validate, evaluate with a gate\n"
	  "  text                  clean, vocabulary, train, evaluate with a gate\n"
	  "  sweep                 trials over two settings, the best trained again",
	  OPTIONS({ 0, "template", "NAME", "begin with this pipeline",
		    .choices = init_files_folders, .complete = COMPLETE_CHOICE }),
	  .json = "{\"directory\", \"template\", \"files\": [{\"path\", \"state\": "
		  "\"made\"|\"kept\"|\"differs\"}]}; differs: kept, and not the template's",
	  EXAMPLES({ "cairn init", "in this directory" }, { "cairn init demo", "in a new one" },
		   { "cairn init --template tabular demo", "with a pipeline for a table" }),
	  .complete = COMPLETE_DIR, .run = cmd_init },
	{ "check", "find everything that is wrong with pipeline files", "[PIPELINE...]", 0, CLI_ANY,
	  "Reads each file (default: pipeline.yaml) and prints every error and warning in it with "
	  "its place. Nothing is run.",
	  .json = "{\"files\": [{\"path\", \"valid\": BOOL, \"pipeline\", \"steps\": N, "
		  "\"problems\": [{\"file\", \"line\", \"column\", \"severity\": "
		  "\"error\"|\"warning\", \"message\"}]}]}",
	  EXIT_CODES({ 0, "all files are valid, perhaps with warnings" },
		     { 3, "a file has errors" }),
	  EXAMPLES({ "cairn check", "check pipeline.yaml" },
		   { "cairn check pipelines/*.yaml --json", "many files, for a program" }),
	  .complete = COMPLETE_YAML, .run = cmd_check },
	{ "plan", "what a run would do: which tasks are on record, which would run, and why",
	  "[PIPELINE] [STEP...]", 0, CLI_ANY,
	  "Works out the key of every task and looks it up, without executing anything. A task is "
	  "a hit (its result is on record), to be run (with the reason), or waits for one that is "
	  "to be run. Times are estimates from past runs. With -v: which files of the project each "
	  "step gets as code, and why.",
	  OPTIONS(OPT_PARAMS, OPT_SELECT, OPT_STORE, OPT_CACHE,
		  { 'a', "all", NULL, "every task on a line of its own, also the hits" }),
	  .json = "{\"pipeline\", \"tasks\": [{\"task\", \"step\", \"state\": "
		  "\"hit\"|\"run\"|\"waiting\"|\"skipped\"|\"blocked\", \"key\"|null, "
		  "\"reason\"|null, \"estimate_ns\": N|null}], \"counts\": {\"total\", \"hits\", "
		  "\"run\", \"waiting\"}, \"estimate_ns\": N|null, with -v: \"code\": [{\"step\", "
		  "\"path\", \"why\": "
		  "\"declared\"|\"named\"|\"imported\"|\"sourced\"|\"env_file\", "
		  "\"by\"|null, \"line\"|null}]}",
	  EXAMPLES({ "cairn plan", "what would run" },
		   { "cairn plan -v", "and which code comes along, by which import" },
		   { "cairn plan -p lr=0.1", "and with another param" }),
	  .complete = COMPLETE_YAML, .run = cmd_plan },
	{ "run", "run a pipeline; only what changed is executed", "[PIPELINE] [STEP...]", 0,
	  CLI_ANY,
	  "Runs the pipeline (default: pipeline.yaml in this directory), or only the named steps "
	  "and what they need. A task whose code, inputs, params and environment are on record "
	  "isn't executed again: its outputs are taken from the store.\n"
	  "\n"
	  "Ctrl-C once lets running tasks stop in order; twice stops at once. `cairn resume` goes "
	  "on where a run stopped, whatever stopped it.",
	  OPTIONS(OPT_PARAMS, OPT_SELECT, OPT_JOBS,
		  { 'k', "keep-going", NULL,
		    "after a failure, go on with all that doesn't need it" },
		  { 0, "schedule", "NAME[@TIME]",
		    "as this schedule's firing: its params and times; without TIME the newest that "
		    "has come, if it has not run yet" },
		  { 0, "keep-workspace", NULL,
		    "leave the tasks' working directories in .cairn/work" },
		  { 0, "twice", NULL,
		    "execute what is executed a second time with the same inputs, and compare: "
		    "finds what isn't deterministic" },
		  { 0, "shell", "TASK",
		    "open a shell in this task's workspace instead of running it",
		    .complete = COMPLETE_STEP },
		  { 0, "dry-run", "HOW",
		    "show the objects of the cluster instead: client: nothing is sent; server: as "
		    "it would make them",
		    .choices = "client|server", .complete = COMPLETE_CHOICE, .bare = "client" },
		  { 'o', "output", "FORMAT", "of --dry-run: yaml (default) or json",
		    .choices = "yaml|json", .complete = COMPLETE_CHOICE },
		  { 0, "detach", NULL,
		    "hand the run to a `cairn serve` elsewhere, and return: all that it needs goes "
		    "into the shared store" },
		  OPT_SERVER, OPT_ON, OPT_STORE, OPT_CACHE),
	  .json = "{\"id\", \"hash\", \"pipeline\", \"state\": "
		  "\"succeeded\"|\"failed\"|\"cancelled\"|\"interrupted\", \"started\": TIME, "
		  "\"duration_ns\": N, \"saved_ns\": N, \"counts\": {\"total\", \"executed\", "
		  "\"hits\", \"failed\", \"skipped\", \"blocked\"}, \"message\"|null, "
		  "\"cache_failures\": N}; with --detach: {\"run\", \"project\", \"server\"}; with "
		  "--twice, when anything was executed: as `cairn reproduce --json`; with "
		  "--dry-run: a List of objects",
	  EXIT_CODES({ 0, "done" }, { 1, "a task failed" }, { 2, "wrong usage" },
		     { 3, "the pipeline or the configuration is invalid" },
		     { 4, "the environment: store, disk, database" },
		     { 10, "--twice: the same within tolerance, or after a named normalisation" },
		     { 11, "--twice: a task is not deterministic" },
		     { 12, "--twice: something could not be compared" }, { 130, "interrupted" }),
	  EXAMPLES({ "cairn run", "run pipeline.yaml" },
		   { "cairn run train.yaml -p lr=0.1 -j 4",
		     "another file, a param, four tasks at once" },
		   { "cairn run pipeline.yaml evaluate", "one step and what it needs" },
		   { "cairn run --force train --keep-going",
		     "train again, and don't stop at a failure" },
		   { "cairn run --schedule nightly@2026-03-01T03:00Z",
		     "what the schedule would have run at that time" },
		   { "cairn run --twice --force", "is every step deterministic?" },
		   { "cairn run --on kubernetes --dry-run=server", "would the cluster take it?" },
		   { "cairn run --detach --server https://cairn.example.org",
		     "on a cluster, while this laptop sleeps" }),
	  .complete = COMPLETE_YAML, .ignores_sigpipe = true, .run = cmd_run },
	{ "resume", "go on with a run that was stopped", "[RUN]", 0, 1,
	  "Takes up a run that was interrupted, or whose engine died (default: the newest such "
	  "run). The pipeline, params, inputs and code are those of its start. Nothing that is "
	  "finished is done twice.",
	  OPTIONS(OPT_TRUST, OPT_SECRET, OPT_JOBS, OPT_ON, OPT_STORE, OPT_CACHE),
	  .json = "as `cairn run --json`",
	  EXAMPLES({ "cairn resume", "the newest run that can go on" },
		   { "cairn resume digits-7kq2m", "this one" }),
	  .complete = COMPLETE_RUN, .ignores_sigpipe = true, .run = cmd_resume },
	{ "status", "what a run is doing, or did", "[RUN]", 0, 1,
	  "Shows a run (default: the newest): its state, counts, running tasks and failures.",
	  OPTIONS(OPT_SERVER),
	  .json = "{\"run\": as in `cairn runs --json`, \"tasks\": [{\"task\", \"step\", "
		  "\"attempt\": N, \"id\": N, \"continues\": [ID of an attempt whose checkpoint it "
		  "went on from], \"state\", \"started\": TIME, \"duration_ns\": N, \"exit\": "
		  "N|null, \"failure\"|null, \"message\"|null, \"reason\"|null, \"waiting\"|null, "
		  "\"image\"|null}], \"exports\": [{\"task\", \"output\", \"uri\", \"state\": "
		  "exported|failed, \"message\"}]}",
	  EXAMPLES({ "cairn status", "the newest run" },
		   { "cairn status digits-7kq2m --json", "for a program" }),
	  .complete = COMPLETE_RUN, .run = cmd_status },
	{ "logs", "what tasks printed", "[TASK...]", 0, CLI_ANY,
	  "Prints the logs of the named tasks or steps of a run; without names, of the tasks that "
	  "failed, or of the only one that there is.",
	  OPTIONS(OPT_RUN, { 'f', "follow", NULL, "go on while the task runs" },
		  { 'n', "lines", "N",
		    "only the last N lines; of a gang in pods with -f: of each node" },
		  { 0, "attempt", "N", "the Nth attempt instead of the last" },
		  { 0, "rank", "N", "only what rank N of a distributed step printed" }, OPT_SERVER),
	  EXAMPLES({ "cairn logs train", "of the newest run" },
		   { "cairn logs -r digits-7kq2m 'train[fold=0]'", "one task of a certain run" },
		   { "cairn logs -f train", "as it goes" },
		   { "cairn logs train --rank 1 -n 20", "the last lines of one rank" },
		   { "cairn logs -f train --rank 1 --server", "of a run that a server has" }),
	  .complete = COMPLETE_STEP, .run = cmd_logs },
	{ "cancel", "stop runs that another process is running", "[RUN...]", 0, CLI_ANY,
	  "Asks the run's engine to stop (default: the only run that is running). Tasks get "
	  "SIGTERM and their time of grace. Of a run whose engine died, the Jobs that go on are "
	  "deleted.",
	  OPTIONS({ 0, "now", NULL, "don't wait for tasks to end in order" }, OPT_SERVER),
	  .json = "{\"cancelled\": [RUN ID]}",
	  EXAMPLES({ "cairn cancel", "the running one" },
		   { "cairn cancel digits-7kq2m --now", "at once" }),
	  .complete = COMPLETE_RUN, .run = cmd_cancel },
	{ "runs", "list past and present runs", "", 0, 0,
	  "Newest first, with what was found nondeterministic. Several conditions must all hold. A "
	  "metric is that of any task of the run, executed or hit; STEP.NAME is that of one step.",
	  OPTIONS({ 'n', "limit", "N", "at most N runs (default 20; 0: all)" },
		  { 0, "pipeline", "NAME", "only runs of this pipeline" },
		  { 0, "state", "STATE", "only runs in this state",
		    .choices = "running|died|succeeded|failed|cancelled|interrupted",
		    .complete = COMPLETE_CHOICE },
		  { 0, "since", "TIME", "started since: 2d (ago), 2025-03-01, 2025-03-01T12:00Z" },
		  { 0, "until", "TIME", "started before" },
		  { 'p', "param", "CONDITION",
		    "only where it holds: lr=0.1, lr>0.01, optimizer!=sgd", .repeats = true },
		  { 'm', "metric", "CONDITION", "likewise of a metric: 'accuracy>=0.9'",
		    .repeats = true },
		  { 't', "tag", "NAME", "only the run of this name" },
		  { 0, "commit", "HEX", "only of this commit, or the beginning of one" },
		  { 0, "schedule", "NAME", "only runs that this schedule made" },
		  { 's', "sort", "METRIC",
		    "by this metric, smallest first; -METRIC: largest first" },
		  OPT_SERVER),
	  .json = "{\"runs\": [{\"id\", \"hash\"|null, \"pipeline\", \"path\", \"state\", "
		  "\"started\": TIME, \"duration_ns\": N, \"saved_ns\": N, \"params\": {NAME: "
		  "VALUE}, \"git_commit\"|null, \"git_dirty\": BOOL, \"reproduces\": HASH|null, "
		  "\"counts\": {\"total\", \"executed\", \"hits\", \"failed\", \"skipped\", "
		  "\"blocked\"}, \"message\"|null, \"tags\": [NAME]}]}",
	  EXAMPLES({ "cairn runs", "the newest 20" },
		   { "cairn runs --state failed --json", "failed ones, for a program" },
		   { "cairn runs --since 7d --metric 'accuracy>=0.9' -p lr=0.1",
		     "good ones of this week" },
		   { "cairn runs --sort=-accuracy -n 5", "the best five" }),
	  .run = cmd_runs },
	{ "why", "why a task ran, or would run now", "[PIPELINE] STEP...", 1, CLI_ANY,
	  "Compares the task's key record with the nearest earlier one and names what differs: a "
	  "param, an input file and who made it, the code, the environment, a tool.",
	  OPTIONS(OPT_PARAMS,
		  { 'r', "run", "RUN", "why it ran in that run, instead of now",
		    .complete = COMPLETE_RUN },
		  OPT_STORE),
	  .json = "{\"tasks\": [{\"task\", \"step\", \"state\", \"key\"|null, \"causes\": "
		  "[TEXT]}]}",
	  EXAMPLES({ "cairn why train", "would it run now, and why" },
		   { "cairn why train --run last", "why it ran in the newest run" }),
	  .complete = COMPLETE_STEP, .run = cmd_why },
	{ "graph", "draw a pipeline", "[PIPELINE]", 0, 1,
	  "Draws the steps and what they need. On the terminal, as DOT, Mermaid or SVG.",
	  OPTIONS({ 0, "format", "FORMAT",
		    "text, dot, mermaid or svg (default: by the ending of -o, else text)",
		    .choices = "text|dot|mermaid|svg", .complete = COMPLETE_CHOICE },
		  { 0, "tasks", NULL,
		    "tasks instead of steps, as far as they are known without running" },
		  { 'o', "output", "FILE", "write to FILE instead of standard output",
		    .complete = COMPLETE_FILE }),
	  .json = "{\"pipeline\", \"nodes\": [{\"name\", \"input\": BOOL, \"step\"|null, "
		  "\"tasks\": N|null}], \"edges\": [{\"from\", \"from_input\": BOOL, \"to\", "
		  "\"kind\": \"data\"|\"metrics\"|\"order\"}]}",
	  EXAMPLES({ "cairn graph", "in the terminal" },
		   { "cairn graph -o pipeline.svg", "as a picture" },
		   { "cairn graph --format dot | dot -Tpdf >pipeline.pdf", "through Graphviz" }),
	  .complete = COMPLETE_YAML, .run = cmd_graph },
	{ "metrics", "compare metrics of runs", "[RUN...]", 0, CLI_ANY,
	  "A table with a line a run (default: the newest 20 that have metrics) and a column for "
	  "each metric and each param that differs. Those of the last steps come first. What a "
	  "step gives is here once it has ended; while it runs, `cairn run` shows its newest "
	  "numbers on a terminal (in a pod: those of the last ten seconds), and `cairn logs -f` "
	  "what it prints.",
	  OPTIONS({ 0, "pipeline", "NAME", "only runs of this pipeline" },
		  { 0, "step", "STEP", "only metrics of this step", .repeats = true },
		  { 's', "sort", "NAME",
		    "by this metric or param, smallest first; -NAME: largest first" },
		  { 0, "filter", "CONDITION",
		    "only where it holds, such as 'accuracy>=0.9' or 'lr=0.1'", .repeats = true },
		  { 'n', "limit", "N", "at most N runs (0: all)" },
		  { 'm', "metric", "NAME", "this metric's column and no others", .repeats = true },
		  { 'a', "all", NULL,
		    "all metrics, also parts of others (val.loss) and what the terminal has no "
		    "room for; all params" },
		  { 0, "plot", "METRIC",
		    "draw this metric over steps, in the terminal; alone: all of them. Of the "
		    "newest run, unless RUN or -n says more",
		    .bare = "*", .repeats = true },
		  { 0, "svg", "FILE",
		    "draw into FILE (-: standard output); --plot says which metrics",
		    .complete = COMPLETE_FILE },
		  { 0, "tensorboard", "DIR", "write event files for TensorBoard to DIR/RUN/TASK",
		    .complete = COMPLETE_DIR },
		  OPT_STORE),
	  .json = "{\"runs\": [{\"id\", \"started\": TIME, \"state\", \"params\": {NAME: VALUE}, "
		  "\"metrics\": {TASK: {NAME: NUMBER}}}]}; with --plot: {\"series\": [{\"run\", "
		  "\"task\", \"metric\", \"points\": [[STEP, NUMBER|null]]}]}",
	  EXAMPLES({ "cairn metrics", "of the newest runs" },
		   { "cairn metrics --plot loss -n 3", "the loss over steps, of the newest three" },
		   { "cairn metrics --tensorboard tb/", "event files for TensorBoard" },
		   { "cairn metrics --sort=-accuracy --filter 'lr<0.1'",
		     "best first, small learning rates" }),
	  .complete = COMPLETE_RUN, .run = cmd_metrics },
	{ "diff", "why two runs gave something else", "[RUN [RUN]]", 0, 2,
	  "Says where two runs began to differ, and follows each output that isn't the same back "
	  "to it: a param, code, an input, a tool, or a step that isn't deterministic. Then shows "
	  "params, code, inputs, outputs and metrics side by side. One run is held against the run "
	  "of the same pipeline before it; none: the newest two.",
	  OPTIONS({ 'a', "all", NULL, "also what is the same" }),
	  .json = "{\"a\": RUN ID, \"b\": RUN ID, \"first\": CAUSE|null, \"because\": [{\"task\", "
		  "\"differs\", \"sentence\", \"causes\": [CAUSE]}], \"params\": [{\"name\", "
		  "\"a\", \"b\"}], \"code\": [...], \"inputs\": [...], \"tasks\": [...], "
		  "\"metrics\": [{\"task\", \"name\", \"a\", \"b\"}]}; CAUSE: {\"task\", \"kind\": "
		  "\"fact\"|\"made\"|\"pinned\"|\"nondeterminism\"|\"outcome\"|\"absent\"|"
		  "\"unknown\", \"what\", \"name\", \"a\", \"b\", \"detail\"}",
	  EXAMPLES({ "cairn diff", "the newest two runs" },
		   { "cairn diff digits-7kq2m last", "an older one with the newest" }),
	  .complete = COMPLETE_RUN, .run = cmd_diff },
	{ "lineage", "where content came from, and what was made of it", "WHAT", 1, 1,
	  "WHAT is RUN/TASK/OUTPUT, TASK/OUTPUT of the newest run, a task, a metric "
	  "(TASK@metric.NAME), a file on disk or a content id. Shows who made it, with which "
	  "params, code and tools, and all that was read for it, up to the inputs and where they "
	  "came from. --down shows what was made of it, and ends with a list of what is affected: "
	  "outputs with their runs and names. A file that lies inside of a directory on record is "
	  "found in it (the newest 500 directories are looked through).",
	  OPTIONS({ 'd', "down", NULL, "the other way: what was made of it" },
		  { 0, "depth", "N", "at most N steps away" }, OPT_RUN,
		  { 0, "dot", NULL, "as a graph for Graphviz" },
		  { 0, "svg", "FILE", "draw into FILE (-: standard output)",
		    .complete = COMPLETE_FILE },
		  OPT_STORE),
	  .json = "{\"artifact\": ID of the first node, \"member\": PATH|null, \"truncated\", "
		  "\"nodes\": [{\"id\", \"kind\": \"artifact\", \"name\", \"content\": "
		  "\"blob\"|\"tree\", \"size\", \"origin\": {\"input\", \"uri\", \"run\"}|null} | "
		  "{\"id\", \"kind\": \"attempt\", \"task\", \"step\", \"run\", \"pipeline\", "
		  "\"hash\", \"key\", \"started\", \"git_commit\", \"git_dirty\", \"params\", "
		  "\"tools\", \"code\"}], \"edges\": [{\"from\", \"to\", \"name\"}]}; of a metric "
		  "also \"metric\": {\"name\", \"value\"}; with --down also \"affected\": "
		  "[{\"run\", \"task\", \"output\", \"id\", \"tags\": [NAME]}]",
	  EXAMPLES({ "cairn lineage evaluate/report", "of the newest run" },
		   { "cairn lineage model.bin", "of a file on disk" },
		   { "cairn lineage fashion/best@metric.accuracy", "how a number came about" },
		   { "cairn lineage --down labels.csv",
		     "these labels were wrong: which models are tainted?" }),
	  .complete = COMPLETE_FILE, .run = cmd_lineage },
	{ "export", "a run in the words of other tools", "WHAT", 1, 1,
	  "openlineage: START and COMPLETE, FAIL or ABORT events of the run and of each attempt "
	  "that it executed, one JSON object a line, to a file or, one by one, by POST to a URL "
	  "(with OPENLINEAGE_API_KEY as bearer token, when that is set). slsa: provenance v1 in an "
	  "in-toto statement; WHAT may name one task or output (RUN/TASK/OUTPUT), else it is about "
	  "all. ro-crate: a new directory with ro-crate-metadata.json, the pipeline, inputs and "
	  "outputs.",
	  OPTIONS({ 'f', "format", "FORMAT", "openlineage, slsa or ro-crate",
		    .choices = "openlineage|slsa|ro-crate", .complete = COMPLETE_CHOICE },
		  { 't', "to", "PLACE",
		    "a file (-: standard output, the default), a URL, or for ro-crate a new "
		    "directory (default: RUN-crate)",
		    .complete = COMPLETE_FILE },
		  { 0, "namespace", "NAME",
		    "OpenLineage: namespace of jobs and of what they make (default: cairn)" },
		  { 0, "license", "URI", "RO-Crate: the licence of what is in it" }, OPT_STORE),
	  EXAMPLES({ "cairn export last --format openlineage --to "
		     "http://localhost:5000/api/v1/lineage",
		     "to Marquez" },
		   { "cairn export last/train/model --format slsa --to model.intoto.json",
		     "where a model came from, for a verifier" },
		   { "cairn export fashion/best --format ro-crate --to crate/",
		     "a run as a research object" }),
	  .complete = COMPLETE_RUN, .run = cmd_export },
	{ "get", "copy an output, log, code or a whole run out of the store", "WHAT", 1, 1,
	  "WHAT is TASK/OUTPUT of the newest run (or STEP, when it has one output and one task), "
	  "RUN/TASK/OUTPUT, RUN:OUTPUT, TASK@log, TASK@code, RUN@input.NAME, RUN@metric.NAME, a "
	  "content id or its beginning, or a RUN: id, run hash or the beginning of one, or a name "
	  "that `cairn tag` gave. A run becomes a directory with pipeline/, code/STEP/, "
	  "outputs/TASK/OUTPUT, logs/TASK.log, metrics.json and manifest.json. A run hash may be "
	  "that of a run which only the shared store knows.\n\nThe copy is yours: changing it "
	  "doesn't touch the store.",
	  OPTIONS(OPT_RUN,
		  { 'o', "output", "PATH",
		    "where to (default: the output's own name, or the run's id; -: standard "
		    "output)",
		    .complete = COMPLETE_FILE },
		  { 0, "replace", NULL, "replace what is there" },
		  { 0, "inputs", NULL, "of a run: its inputs too" }, OPT_STORE),
	  .json = "{\"id\", \"path\", \"bytes\": N}; of a run: {\"id\", \"run\", \"path\", "
		  "\"contents\": N, \"bytes\": N, \"missing\": [TEXT]}; of a metric: {\"run\", "
		  "\"task\", \"metric\", \"value\"}",
	  EXIT_CODES({ 0, "done" },
		     { 1, "of a run: some of its content isn't in the store any more" },
		     { 4, "it isn't there" }),
	  EXAMPLES({ "cairn get train/model", "of the newest run" },
		   { "cairn get evaluate/report -r digits-7kq2m -o /tmp/report",
		     "of a certain one" },
		   { "cairn get fashion/best:model", "of the run that has this name" },
		   { "cairn get 1f0c9b2a -o run/", "a whole run" },
		   { "cairn get train@log -o -", "what a task printed" }),
	  .complete = COMPLETE_STEP, .run = cmd_get },
	{ "tag", "give names to runs", "[RUN NAME]", 0, 2,
	  "A name such as v2 or fashion/best stands for a run everywhere a run can be named, and "
	  "what it stands for is not removed by `cairn store gc`. Given again, it moves; each "
	  "change is kept, with time, author and note. With a shared store the names are "
	  "everybody's. Without operands: the list.\n\n"
	  "Small letters, digits and . _ - /, at most 100, and nothing that reads like a run id or "
	  "hash.",
	  OPTIONS({ 'l', "list", NULL, "what each name means now" },
		  { 0, "history", "NAME", "what the name meant, newest first" },
		  { 0, "delete", "NAME", "take the name away; its history stays" },
		  { 'm', "note", "TEXT", "why; kept with the change" }, OPT_STORE),
	  .json = "{\"tags\": [{\"name\", \"hash\"|null, \"run\"|null, \"at\": TIME, "
		  "\"author\"|null, \"note\"|null}]}",
	  EXAMPLES({ "cairn tag last fashion/best -m 'first over 0.9'", "name the newest run" },
		   { "cairn get fashion/best:model", "what it made" },
		   { "cairn tag --history fashion/best", "what it was before" }),
	  .complete = COMPLETE_RUN, .run = cmd_tag },
	{ "schedule", "see and steer what runs by itself", .subcommands = schedule_commands,
	  .bare = "write",
	  .description = "Schedules stand in pipeline files; `cairn serve` fires them. What they "
			 "did, pauses and triggers are on record in the project, so that these "
			 "commands work with and without a server. SCHEDULE is a schedule's name, "
			 "or FILE:NAME where two pipelines have one of that name.",
	  EXAMPLES({ "cairn schedule list", "what there is, and when it comes next" },
		   { "cairn schedule trigger nightly", "now" },
		   { "cairn schedule --to crontab", "for an operator who prefers cron; the same as "
						    "`cairn schedule write --to crontab`" }) },
	{ "reproduce", "run a past run again, and prove whether its outputs are the same bytes",
	  "RUN", 1, 1,
	  "RUN is a run hash or its beginning, a run id or a tag. Everything that the run was "
	  "comes from the store: pipeline, params, code and inputs. Neither the checkout nor the "
	  "machine that it ran on is needed: in an empty directory, name the store. Nothing is "
	  "taken from the cache, and what is made answers for no other run.\n"
	  "\n"
	  "Each task is given the inputs on record, so one pass finds every task that isn't "
	  "deterministic; with --chained it is given what was made just now. Outputs are held "
	  "against each other file by file, metrics number by number, within the `tolerance` that "
	  "the step declares. Outputs that differ only in what their format records beside the "
	  "content (times in a tar) are named as the same after that normalisation, which is not "
	  "the same bytes: exit 10, like a metric within tolerance. What differs around it (tools, "
	  "kernel, cpu) is listed. Tasks that can't be run again (an input, code or secret that is "
	  "gone) say what is missing; the others go on. Outputs are exported nowhere; a step that "
	  "acts on the world by itself does so again, unless --skip leaves it out.\n"
	  "\n"
	  "A run that wasn't begun in this project executes what whoever wrote it into the store "
	  "wants: it is shown and refused, unless --trust is given, and gets no secret that "
	  "--secret doesn't name.\n"
	  "\n"
	  "Both runs are kept, whatever the retention says, until the reproduction is dropped. A "
	  "reproduction that was interrupted goes on with `cairn resume`.",
	  OPTIONS({ 0, "chained", NULL,
		    "feed each task what was made now, instead of what is on record" },
		  { 0, "step", "STEP", "only this step or task (chained: and what it needs)",
		    .repeats = true, .complete = COMPLETE_STEP },
		  { 0, "skip", "STEP",
		    "leave this step or task out, such as one that acts on the world",
		    .repeats = true, .complete = COMPLETE_STEP },
		  OPT_TRUST, OPT_SECRET, OPT_JOBS,
		  { 0, "html", "FILE", "also write the report as a page",
		    .complete = COMPLETE_FILE },
		  { 'o', "output", "DIR",
		    "keep its state there, in DIR/.cairn, instead of in the project",
		    .complete = COMPLETE_DIR },
		  { 0, "keep-workspace", NULL,
		    "leave the tasks' working directories in .cairn/work" },
		  { 0, "drop", NULL,
		    "don't keep the reproductions that RUN is part of any longer; nothing is run" },
		  OPT_ON, OPT_STORE, OPT_CACHE),
	  .json = "{\"original\": HASH, \"was\": RUN, \"is\": RUN (both as in `cairn runs "
		  "--json`), \"mode\": \"isolated\"|\"chained\", \"verdict\", \"first\": "
		  "TASK|null, \"tasks\": [{\"task\", \"step\", \"verdict\": "
		  "\"reproduced\"|\"diverged\"|\"not comparable\"|\"not selected\", \"why\"|null, "
		  "\"after_divergence\": BOOL, \"was_duration_ns\": N, \"duration_ns\": N, "
		  "\"outputs\": [{\"name\", \"was\", \"is\", \"verdict\", \"normaliser\"|null, "
		  "\"path\"|null, \"offset\": N|null, \"detail\"|null, \"files\": {...}}], "
		  "\"metrics\": [{\"name\", \"was\", \"is\", \"tolerance\"|null, \"verdict\"}]}], "
		  "\"environment\": [{\"what\", \"was\", \"is\"}]}; with --drop: {\"dropped\": N}",
	  EXIT_CODES({ 0, "all outputs are the same bytes" },
		     { 10, "the same within declared tolerance, or after a named normalisation" },
		     { 11, "something is different" }, { 12, "something could not be compared" },
		     { 2, "wrong usage" }, { 3, "RUN has no such step" },
		     { 4, "the environment: store, disk, database" }, { 130, "interrupted" }),
	  EXAMPLES(
		  { "cairn reproduce 1f0c9b", "every step, by the beginning of the run hash" },
		  { "cairn reproduce 1f0c9b --trust --store s3://team/cairn -o /tmp/again",
		    "on a machine that has nothing else" },
		  { "cairn reproduce last --step train --chained", "one step and what it needs" },
		  { "cairn reproduce fashion/best --html report.html", "by its tag, with a page" }),
	  .complete = COMPLETE_RUN, .ignores_sigpipe = true, .run = cmd_reproduce },
	{ "serve", "run schedules unattended, and answer over HTTP", "[PROJECT_DIR...]", 0, CLI_ANY,
	  "Runs every schedule of the projects (default: the one here), each run as a process of "
	  "its own. Stays in the foreground and logs a line an event. Pipeline files with "
	  "schedules are found in the project's root and in pipelines/; an edit is taken up by "
	  "itself, a broken one keeps the old schedule and says so.\n"
	  "\n"
	  "SIGHUP loads everything again. SIGTERM and SIGINT drain: nothing new begins, runs that "
	  "are going on have --drain-timeout, then they are asked to stop; `cairn resume` goes on "
	  "with them. A second signal asks at once, a third one leaves them running. After kill -9 "
	  "runs go on too, and the next server follows them: no firing is lost, none happens "
	  "twice.\n"
	  "\n"
	  "HTTP: /healthz, /readyz, /metrics (OpenMetrics), and the API under /api/v1 that "
	  "/api/v1/openapi.json describes. At a loopback address or a Unix socket reading is free; "
	  "what changes something needs the token as `Authorization: Bearer TOKEN`. Any other "
	  "address needs a token for all but health, and isn't listened at without one; put TLS in "
	  "front of it.\n"
	  "\n"
	  "Who is told of failures stands in a schedule's `notify`. A command gets the event as "
	  "JSON on standard input and as CAIRN_EVENT, CAIRN_SCHEDULE, CAIRN_RUN, CAIRN_MESSAGE and "
	  "others; a webhook gets it as a POST, signed with its secret: `Cairn-Signature: "
	  "t=SECONDS,v1=HEX`, where HEX is the HMAC-SHA256 of SECONDS, a dot and the body. What "
	  "may go better is tried again for about a day, across restarts.\n"
	  "\n"
	  "On a cluster: with a Lease (cairn.yaml's serve.lease, or --lease) several servers may "
	  "be started by mistake or on purpose: one acts, the others stand by and take over when "
	  "it is gone. Who loses the Lease ends at once; Jobs go on, and the next one takes its "
	  "runs up. runners/kubernetes/deploy has the manifests.\n"
	  "\n"
	  "As a service: `cairn serve --unit` prints a unit for systemd (readiness, watchdog, "
	  "reload and socket activation are spoken). In a container, whose time to stop must be "
	  "longer than the drain's:\n"
	  " docker run -d -v /srv/project:/project -w /project -v /etc/cairn/token:/run/token:ro "
	  "\\\n"
	  "   -p 127.0.0.1:8410:8410 IMAGE cairn serve --listen 0.0.0.0:8410 --token-file "
	  "/run/token",
	  OPTIONS({ 0, "listen", "ADDRESS",
		    "ADDR:PORT, unix:PATH or none (default: 127.0.0.1:8410, or systemd's sockets); "
		    "port 0: any",
		    .repeats = true },
		  { 0, "token-file", "FILE",
		    "the token that changes need, one line (or CAIRN_SERVE_TOKEN)",
		    .complete = COMPLETE_FILE },
		  { 0, "pipeline", "FILE",
		    "serve this pipeline file, instead of all that have schedules", .repeats = true,
		    .complete = COMPLETE_YAML },
		  { 0, "drain-timeout", "DURATION",
		    "how long runs may go on when the server is to end (default 5m)" },
		  { 0, "max-runs", "N", "at most N runs at once, over all projects" },
		  { 0, "lease", "NAME",
		    "of several servers of these projects only the one that holds this Lease of "
		    "Kubernetes acts (default: cairn.yaml's serve.lease)" },
		  { 0, "log", "FORMAT", "how events are logged: text or json",
		    .choices = "text|json", .complete = COMPLETE_CHOICE },
		  { 0, "unit", NULL, "print a unit file for systemd, and do nothing else" }),
	  EXIT_CODES({ 0, "it was asked to end, and did" },
		     { 2, "wrong usage, or an address that needs a token" },
		     { 3, "a configuration is invalid" },
		     { 4, "the environment: database, disk, an address that is taken" }),
	  EXAMPLES({ "cairn serve", "the project here, API at 127.0.0.1:8410" },
		   { "cairn serve /srv/a /srv/b --token-file /etc/cairn/token",
		     "two projects; the API may start runs" },
		   { "cairn serve --unit >/etc/systemd/system/cairn.service", "as a service" }),
	  .complete = COMPLETE_DIR, .ignores_sigpipe = true, .run = cmd_serve },
	{ "secret", "keep secrets for steps", .subcommands = secret_commands,
	  .description = "Secrets reach the steps that name them as environment variables, and "
			 "nothing else: they aren't keyed or stored with results. Logs show *** "
			 "instead of a value's lines, also where a program prints them in base64, "
			 "percent-encoded or in JSON; lines of fewer than 4 bytes are not masked, "
			 "and what a step writes into its outputs and metrics is its own affair. "
			 "CAIRN_SECRET_NAME in the environment wins over what is kept.",
	  EXAMPLES({ "cairn secret set REGISTRY_TOKEN", "keep one" },
		   { "cairn secret list", "which are there" }) },
	{ "image", "write Cairn's own container image, without Docker", "", 0, 0,
	  "The image holds this very program, the built-in steps, the helpers that run beside "
	  "tasks, every shared library that they need, CA certificates and time zones, and no "
	  "shell. Pods that run tasks, and `cairn serve` on a cluster, are made of it. It is read "
	  "from the files that this program runs on (nothing is downloaded, nothing executed), and "
	  "the same files give the same bytes and digest, whenever and wherever it is made. Its "
	  "user is 10001:10001, and its root may be read-only.\n"
	  "\n"
	  "--output DIR writes an OCI image layout. --output FILE.tar writes the same as one file, "
	  "which `docker load`, `ctr images import` and `podman load` take. --push sends it to a "
	  "registry, with the credentials of `docker login` (DOCKER_CONFIG, ~/.docker/config.json) "
	  "or of a docker-credential helper named there; blobs that are there already aren't sent "
	  "again.",
	  OPTIONS({ 'o', "output", "PATH",
		    "a directory that is empty or doesn't exist, or FILE.tar",
		    .complete = COMPLETE_FILE },
		  { 0, "push", "REGISTRY/NAME:TAG", "send it to a registry" },
		  { 0, "name", "NAME:TAG",
		    "what it is called (default: as pushed, or cairn:VERSION)" },
		  { 0, "plain-http", NULL,
		    "the registry speaks HTTP; one on this machine may anyway" }),
	  .json = "{\"digest\", \"name\", \"output\"|null, \"pushed\"|null, \"size\": N, "
		  "\"files\": N, \"architecture\"}",
	  EXAMPLES({ "cairn image --output cairn.tar", "for this machine: docker load takes it" },
		   { "cairn image --push registry.example/tools/cairn:0.1",
		     "for a cluster; name it in cairn.yaml as kubernetes.image" }),
	  .run = cmd_image },
	{ "step", "run a built-in step by itself", "NAME [OPTION...]", 0, CLI_ANY,
	  "The steps that a pipeline names with `uses`: shard, augment, train, evaluate. `cairn "
	  "step` lists them, `cairn step NAME --help` says what one reads, makes and can be told. "
	  "Everything behind NAME is the step's own.",
	  EXIT_CODES({ 0, "done" }, { 1, "the step failed" }, { 2, "wrong use" },
		     { 3, "a setting is invalid" }),
	  EXAMPLES({ "cairn step shard --help", "what a step takes" },
		   { "cairn step shard -i data=photos/ -o train=shards/ -w samples_per_shard=1000",
		     "" }),
	  .raw = true, .run = cmd_step },
	{ "store", "look after the store", .subcommands = store_commands,
	  .description =
		  "The store holds all content that runs read and made, each under its digest.",
	  EXAMPLES({ "cairn store stat", "how much is in it" },
		   { "cairn store gc --dry-run", "how much could be freed" }) },
	{ "doctor", "check that everything that runs need is in order", "[PIPELINE]", 0, 1,
	  "Looks at the state directory, store, database, disk, time, libraries, and the tools "
	  "that the pipeline names, and says what to do about what isn't right. On Kubernetes also "
	  "at the cluster: its version, the account's rights, whether it would take a Job (dry "
	  "run; nothing is made), quotas, GPUs; with --deep a pod is run there as a task's would "
	  "be, which reads from the store and writes to it, and removed again.",
	  OPTIONS(OPT_ON, { 0, "deep", NULL, "on Kubernetes: run a pod, too" }),
	  .json = "{\"checks\": [{\"name\", \"state\": \"ok\"|\"warning\"|\"problem\", \"detail\", "
		  "\"advice\"|null}], \"healthy\": BOOL}",
	  EXIT_CODES({ 0, "no problem, perhaps warnings" }, { 1, "a problem was found" }),
	  EXAMPLES({ "cairn doctor", "check this project and machine" },
		   { "cairn doctor --on kubernetes", "and the cluster that the kubeconfig names" },
		   { "cairn doctor --on kubernetes --deep", "does a pod reach the store?" }),
	  .complete = COMPLETE_YAML, .run = cmd_doctor },
	{ "version", "print the version", "", 0, 0,
	  "With -v also how it was built and which libraries it uses.",
	  .json = "{\"version\", \"compiler\", \"built_for\", \"libraries\": {NAME: VERSION}}",
	  EXAMPLES({ "cairn version -v", "with the libraries" }), .run = cmd_version },
	{ "help", "explain a command", "[COMMAND [SUBCOMMAND]]", 0, 2,
	  "The same as `cairn COMMAND --help`; without a name, the list of commands.",
	  OPTIONS({ 0, "man", NULL, "as a man page (roff); without a name, all pages" },
		  { 'o', "output", "DIR", "with --man: write each page to a file of its own in DIR",
		    .complete = COMPLETE_DIR }),
	  EXAMPLES({ "cairn help run", "" },
		   { "cairn help --man run >cairn-run.1", "its man page" }),
	  .complete = COMPLETE_COMMAND, .run = cmd_help },
	{ "man", "print man pages", "[COMMAND [SUBCOMMAND]]", 0, 2,
	  "Prints the man page of a command as roff; without a name, all pages one after the "
	  "other.",
	  OPTIONS({ 'o', "output", "DIR", "write each page to a file of its own in DIR",
		    .complete = COMPLETE_DIR }),
	  EXAMPLES({ "cairn man run | man -l -", "read a page" },
		   { "cairn man --output ~/.local/share/man/man1", "for `man cairn-run`" }),
	  .complete = COMPLETE_COMMAND, .run = cmd_man },
	{ "completion", "print the completion script of a shell", "SHELL", 1, 1,
	  "bash: add `eval \"$(cairn completion bash)\"` to ~/.bashrc. zsh: write it to a file "
	  "_cairn in a directory of $fpath. fish: write it to "
	  "~/.config/fish/completions/cairn.fish.",
	  EXAMPLES({ "cairn completion bash >/etc/bash_completion.d/cairn", "for all users" }),
	  .complete = COMPLETE_CHOICE, .operand_choices = "bash|zsh|fish", .run = cmd_completion },
	{ 0 },
};

const struct cli_command cli_hidden_commands[] = {
	{ "pod", "what runs beside a program in a pod", "", 0, 0,
	  "The sidecar of a step's pod on Kubernetes, as the Job that Cairn makes names it: "
	  "fetches what the program reads, waits for its end, keeps what it made. Where and what "
	  "stands in the environment: CAIRN_POD_SPEC, CAIRN_STORE and CAIRN_STORE_*, and the "
	  "store's credentials.",
	  OPTIONS({ 0, "ready", NULL, "wait until the program's container may be made" },
		  { 0, "well", NULL, "tell whether the store takes what the program made" },
		  { 0, "root", "DIR", "instead of /cairn", .complete = COMPLETE_DIR },
		  { 0, "state", "DIR", "of this container alone, instead of /tmp",
		    .complete = COMPLETE_DIR },
		  { 0, "message", "FILE", "instead of /dev/termination-log",
		    .complete = COMPLETE_FILE },
		  { 0, "helper", "FILE", "instead of /usr/lib/cairn/cairn-init",
		    .complete = COMPLETE_FILE },
		  { 0, "launcher", "FILE", "instead of /usr/lib/cairn/cairn-launch",
		    .complete = COMPLETE_FILE },
		  { 0, "checkpoint-every", "DURATION",
		    "how often a checkpoint that has changed is saved (5m)" },
		  { 0, "save-within", "DURATION",
		    "for how long a store that can't be reached is tried again (12h)" }),
	  EXIT_CODES({ 0, "the result is told" }, { 2, "the environment lacks something" },
		     { 4, "nothing could be told" }),
	  EXAMPLES({ "cairn pod --ready", "the container's postStart hook" }), .run = cmd_pod },
	{ 0 },
};
