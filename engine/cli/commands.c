/* engine/cli/commands.c — the table of all commands.
 *
 * Keep a command's entry true: help, man page, completion and the check of the command line are
 * made from it. The order is that of `cairn --help`: from the first thing that a newcomer does to
 * the last. Subcommands stand in tables of their own, those of `schedule` in
 * serve/commands_schedule.c. Options that several commands share are macros of command_table.h.
 *
 * A plain list without code.
 */
#include "cli/cli.h"
#include "cli/command_table.h"
#include "cli/help/templates.h"

const struct cli_option cli_global_options[] = {
	{ 'C', "directory", "DIR", "run as if started in DIR", .complete = COMPLETE_DIR },
	{ 'q', "quiet", NULL, "print only errors and results", .repeats = true },
	{ 'v', "verbose", NULL, "print more detail; twice for even more", .repeats = true },
	{ 0, "color", "WHEN", "colour: auto, always or never", .choices = "auto|always|never",
	  .complete = COMPLETE_CHOICE },
	{ 'h', "help", NULL, "show this help" },
	{ 0 },
};
const struct cli_option cli_json_option = { 0, "json", NULL,
					    "print the result as one JSON document" };

static const struct cli_command store_commands[] = {
	{ "verify", "read back and check everything in the store", "", 0, 0,
	  "Reads every object of the store and checks its digest, every record, and that the "
	  "objects that records name exist. A damaged object is set aside; the next run that needs "
	  "it makes it again. With a shared store, checks both sides: a damaged local copy is "
	  "fetched again, and a damaged remote copy is sent again if the local one is "
	  "sound.\n\nInputs by reference are checked at their origins. Those that changed, are "
	  "gone or can't be reached are listed and counted, but they are no problem of the store.",
	  OPTIONS({ 0, "sample", "PART",
		    "read only this part of a shared store, such as 5% or 0.05; another part each "
		    "time" },
		  OPT_STORE),
	  .json = "cairn.store-verify/1",
	  EXIT_CODES({ 0, "everything is sound, or was repaired" },
		     { 1, "problems were found; each was printed" }),
	  EXAMPLES({ "cairn store verify", "check all content" }), .run = cmd_store_verify },
	{ "gc", "remove content that no run needs", "", 0, 0,
	  "Keeps what the newest runs, running runs and the cache need; see `retention` in "
	  "cairn.yaml. An object is removed only if two passes, at least an hour apart, found it "
	  "unused: the first `gc` marks it, a later one removes it.\n\nWith a shared store, "
	  "collects the bucket. Runs of other projects are kept by the same rules, and an object "
	  "that a running process may need is never removed. `cache_size` limits the local "
	  "directory in front of the bucket.\n\nEnvironments of steps that no run of this "
	  "project has used for 30 days (or as long as `retention` keeps runs) are removed, too, "
	  "unless a run is unfinished.",
	  OPTIONS({ 'n', "dry-run", NULL, "show what would be removed; remove nothing" },
		  { 0, "keep-runs", "N", "keep the newest N runs of each pipeline" },
		  { 0, "keep", "DURATION", "keep runs younger than this, such as 30d" },
		  { 0, "grace", "DURATION", "keep objects younger than this (default 1h)" },
		  OPT_STORE),
	  .json = "cairn.store-gc/1",
	  EXAMPLES({ "cairn store gc --dry-run", "how much could be freed" },
		   { "cairn store gc --keep 30d", "forget older runs" }),
	  .run = cmd_store_gc },
	{ "push", "send runs to the shared store", "[RUN...]", 0, CLI_ANY,
	  "Sends what the shared store lacks of these runs: manifests, results, content and cache "
	  "records. Without RUN, sends everything in the local store. `cairn run` sends its "
	  "results itself; use `push` for what it could not send, or what was made before the "
	  "store was shared.",
	  OPTIONS({ 0, "unsent", NULL,
		    "send only what runs left unsent because they were killed or couldn't reach "
		    "the store" },
		  OPT_STORE),
	  .json = "cairn.store-push/1",
	  EXIT_CODES({ 0, "the shared store has all of it" },
		     { 1, "something is missing here, too" }),
	  EXAMPLES({ "cairn store push", "share everything" },
		   { "cairn store push last", "share the newest run" }),
	  .complete = COMPLETE_RUN, .run = cmd_store_push },
	{ "pull", "fetch runs from the shared store", "[RUN...]", 0, CLI_ANY,
	  "Fetches runs and everything that they name, so that you can use them offline. RUN is a "
	  "run of this project, or the hash (or a prefix of it) of any run in the shared store. "
	  "Without RUN, fetches all runs, results and tags of the shared store.",
	  OPTIONS(OPT_STORE), .json = "cairn.store-pull/1",
	  EXIT_CODES({ 0, "all of it is here" }, { 1, "something is missing in the shared store" }),
	  EXAMPLES({ "cairn store pull 1f0c9b", "a colleague's run" }), .complete = COMPLETE_RUN,
	  .run = cmd_store_pull },
	{ "probe", "test what the shared store can do", "", 0, 0,
	  "Tests, with objects of its own, whether the shared store supports conditional writes "
	  "and deletes, verifies checksums and answers range requests, and measures the clock "
	  "difference. The store works without any of these; with them it transfers fewer bytes.",
	  OPTIONS(OPT_STORE), .json = "cairn.store-probe/1",
	  EXAMPLES({ "cairn store probe", "is this bucket fit?" }), .run = cmd_store_probe },
	{ "reindex", "rebuild the database from the store", "", 0, 0,
	  "Reads every run manifest in the store, and in the shared store behind it, and rebuilds "
	  "the database of runs, metrics, lineage and tags. Use it when the database is lost or "
	  "damaged, or to see the runs of colleagues. The old database is kept as "
	  "cairn.db.before-reindex. What only it has (unfinished runs, runs whose manifests were "
	  "collected, schedules) is copied if it can be read.",
	  OPTIONS(OPT_STORE), .json = "cairn.store-reindex/1",
	  EXIT_CODES({ 0, "done" },
		     { 1, "done, without the manifests that can't be read; each was named" },
		     { 4, "a run is going on, or the store can't be read" }),
	  EXAMPLES({ "cairn store reindex", "all runs that the store knows" }),
	  .run = cmd_store_reindex },
	{ "stat", "count what the store holds", "", 0, 0,
	  "Counts objects and bytes by kind, and what crashes left behind.", OPTIONS(OPT_STORE),
	  .json = "cairn.store-stat/1", EXAMPLES({ "cairn store stat", "objects and bytes" }),
	  .run = cmd_store_stat },
	{ 0 },
};

static const struct cli_command secret_commands[] = {
	{ "set", "store a secret for steps that name it", "NAME", 1, 1,
	  "Reads the value from standard input, or asks for it without echo on a terminal. One "
	  "newline at the end is dropped. The value is kept in .cairn/secrets/NAME, which only its "
	  "owner may read. It is never keyed or stored with results, and logs show *** instead of "
	  "it. A value needs at least 4 bytes: a shorter one can't be masked in logs.",
	  EXAMPLES({ "cairn secret set REGISTRY_TOKEN", "asks for the value" },
		   { "cairn secret set REGISTRY_TOKEN <token.txt", "takes it from a file" }),
	  .run = cmd_secret_set },
	{ "list", "list the names of secrets", "", 0, 0,
	  "Names only. Secrets of the environment (CAIRN_SECRET_NAME) are listed too.",
	  .json = "cairn.secret-list/1", EXAMPLES({ "cairn secret list", "which are there" }),
	  .run = cmd_secret_list },
	{ "rm", "remove secrets", "NAME...", 1, CLI_ANY, "Removes the file that holds the value.",
	  EXAMPLES({ "cairn secret rm REGISTRY_TOKEN", "" }), .run = cmd_secret_rm },
	{ 0 },
};

static const struct cli_command serve_commands[] = {
	{ "token", "manage who may use a server", "add|list|revoke [NAME]", 1, 2,
	  "A token lets a person or a program use the server of this project. `add` makes one and "
	  "prints it once; the project keeps only its digest, in .cairn/access/tokens.json. "
	  "`revoke` "
	  "ends it and all sessions that were begun with it. A running server sees both at once, "
	  "and needs no restart.\n\nEach role may do what those before it may. viewer: read. "
	  "operator: also start, cancel and approve runs, trigger and pause schedules. admin: also "
	  "read the audit log (/api/v1/audit). A program sends the token as `Authorization: Bearer "
	  "TOKEN`; a person gives it on the page for signing in. A server of several projects uses "
	  "the tokens of the first one.",
	  OPTIONS({ 0, "role", "ROLE", "what the token allows (default: viewer)",
		    .choices = "viewer|operator|admin", .complete = COMPLETE_CHOICE },
		  { 0, "expires", "DURATION", "how long it is valid (default: until revoked)" }),
	  .json = "cairn.serve-token/1",
	  EXIT_CODES({ 0, "done" }, { 2, "wrong usage" },
		     { 3, "the file of tokens is damaged, or the name is taken" },
		     { 4, "there is no such token; environment" }),
	  EXAMPLES({ "cairn serve token add ada --role operator", "prints her token" },
		   { "cairn serve token add ci --expires 90d", "a program that reads" },
		   { "cairn serve token revoke ada", "at once" }),
	  .run = cmd_serve_token },
	{ 0 },
};

const struct cli_command cli_commands[] = {
	{ "init", "make this directory a project, with a pipeline to start from", "[DIR]", 0, 1,
	  "Writes cairn.yaml, a pipeline.yaml that runs as it is, the .cairn/ directory for the "
	  "project's state with the JSON Schema that editors use for pipeline files, and adds "
	  ".cairn/ to .gitignore. Existing files stay as they are; only the schema is updated to "
	  "this version.\n\n--template starts from a complete pipeline with code and sample data. "
	  "Each runs in seconds with only python3; its comments say what to change for your own "
	  "data:\n  hello                 two steps in shell (default)\n  image-classification  "
	  "shard, augment, train, evaluate with a gate\n  tabular               a CSV table: "
	  "cross-validate, evaluate with a gate\n  text                  clean, vocabulary, train, "
	  "evaluate with a gate\n  sweep                 trials over two settings, the best "
	  "trained again",
	  OPTIONS({ 0, "template", "NAME", "start from this template",
		    .choices = init_files_folders, .complete = COMPLETE_CHOICE }),
	  .json = "cairn.init/1",
	  EXAMPLES({ "cairn init", "in this directory" }, { "cairn init demo", "in a new one" },
		   { "cairn init --template tabular demo", "with a pipeline for a table" }),
	  .complete = COMPLETE_DIR, .run = cmd_init },
	{ "import", "make a pipeline from one of another tool", "FILE", 1, 1,
	  "Reads a dvc.yaml, a workflow of Argo, a compiled pipeline of Kubeflow or a Snakefile, "
	  "and "
	  "writes pipeline.yaml beside it. What can be said becomes a pipeline that runs. The rest "
	  "is "
	  "listed with its file and line, and with what to do.\n\nData that is only in DVC's cache "
	  "is "
	  "hard-linked into the project, and the store takes it without a copy (`mode: "
	  "link`).\n\nThe "
	  "importer is a part of the Python package: python3 -m pip install "
	  "'cairn-engine[import]'. A "
	  "Snakefile is read by Snakemake itself, which must be installed for the same python3.",
	  OPTIONS({ 'o', "output", "FILE", "write to FILE; -: standard output",
		    .complete = COMPLETE_FILE },
		  { 0, "format", "FORMAT", "what FILE is (default: by its name and content)",
		    .choices = "dvc|argo|kubeflow|snakemake", .complete = COMPLETE_CHOICE },
		  { 0, "replace", NULL, "replace a file that is there" },
		  { 0, "no-data", NULL, "leave DVC's cache alone" }),
	  .json = "cairn.import/1",
	  EXIT_CODES({ 0, "a pipeline was written; what it doesn't say is listed" },
		     { 2, "FILE can't be read as a pipeline, or the result is there already" },
		     { 4, "python3, or the package, is missing" }),
	  EXAMPLES({ "cairn import dvc.yaml", "writes pipeline.yaml" },
		   { "cairn import workflow/Snakefile -o pipeline.yaml", "into this directory" }),
	  .complete = COMPLETE_FILE, .run = cmd_import },
	{ "check", "find everything that is wrong with pipeline files", "[PIPELINE...]", 0, CLI_ANY,
	  "Reads each file (default: pipeline.yaml) and prints every error and warning in it with "
	  "its position. Runs nothing. Then looks for what a run needs. Code, lock files and a "
	  "script with which a command begins must be in the project. Missing data is a warning, "
	  "as is a pattern of `each` that matches nothing in data that is here, and so are, unless "
	  "the runner is kubernetes, wrong names of images, and secrets, tools and resources that "
	  "this machine lacks. A file outside of every project is checked alone.",
	  .json = "cairn.check/1",
	  EXIT_CODES({ 0, "all files are valid, perhaps with warnings" },
		     { 3, "a file has errors" }),
	  EXAMPLES({ "cairn check", "check pipeline.yaml" },
		   { "cairn check pipelines/*.yaml --json", "many files, for a program" }),
	  .complete = COMPLETE_YAML, .run = cmd_check },
	{ "plan", "show what a run would do: which tasks are cached, which would run, and why",
	  "[PIPELINE] [STEP...]", 0, CLI_ANY,
	  "Computes the key of every task and looks it up, without executing anything. A task is a "
	  "hit (its result is on record), would run (with the reason), or waits for a task that "
	  "would run. Times are estimates from past runs. With -v, also shows which files of the "
	  "project each step gets as code, and why; and the environments that steps have, and "
	  "whether they are made.",
	  OPTIONS(OPT_PARAMS, OPT_SELECT, OPT_STORE, OPT_CACHE,
		  { 'a', "all", NULL, "list every task, including hits" }),
	  .json = "cairn.plan/1",
	  EXAMPLES({ "cairn plan", "what would run" },
		   { "cairn plan -v", "and which code comes along, by which import" },
		   { "cairn plan -p lr=0.1", "and with another param" }),
	  .complete = COMPLETE_PIPELINE_STEP, .run = cmd_plan },
	{ "run", "run a pipeline; only what changed is executed", "[PIPELINE] [STEP...]", 0,
	  CLI_ANY,
	  "Runs the pipeline (default: pipeline.yaml in this directory), or only the named steps "
	  "and what they need. A task whose code, inputs, params and environment are on record "
	  "isn't executed again: its outputs come from the store.\n\nPress Ctrl-C once to let "
	  "running tasks stop in order, twice to stop at once. `cairn resume` continues a run, "
	  "whatever stopped it.\n\nOn a terminal, each running task is shown with the last line "
	  "that it printed. -v prints all that tasks on this machine print, each line behind the "
	  "name of its task, and names tasks that aren't executed.",
	  OPTIONS(OPT_PARAMS, OPT_SELECT, OPT_JOBS,
		  { 'k', "keep-going", NULL,
		    "after a failure, continue with tasks that don't depend on it" },
		  { 0, "schedule", "NAME[@TIME]",
		    "run as a firing of this schedule, with its params and times; without TIME: "
		    "the newest time that has come, unless it has run" },
		  { 0, "audit", "STEP",
		    "tell what STEP reads and doesn't declare, when it is executed here; without a "
		    "value: all steps",
		    .bare = "*", .repeats = true, .complete = COMPLETE_STEP },
		  { 0, "keep-workspace", NULL,
		    "keep the tasks' working directories in .cairn/work" },
		  { 0, "twice", NULL,
		    "execute each task that ran a second time with the same inputs, and compare: "
		    "finds nondeterministic tasks" },
		  { 0, "shell", "TASK",
		    "open a shell in this task's workspace instead of running it",
		    .complete = COMPLETE_STEP },
		  { 0, "dry-run", "HOW",
		    "print the Kubernetes objects instead; client: send nothing; server: as the "
		    "API server would create them",
		    .choices = "client|server", .complete = COMPLETE_CHOICE, .bare = "client" },
		  { 'o', "output", "FORMAT", "format of --dry-run: yaml (default) or json",
		    .choices = "yaml|json", .complete = COMPLETE_CHOICE },
		  { 0, "detach", NULL,
		    "hand the run to a `cairn serve` and return; everything it needs goes into the "
		    "shared store" },
		  OPT_SERVER, OPT_ON, OPT_STORE, OPT_CACHE),
	  .json = "cairn.run/1 cairn.detached/1 cairn.reproduce/1",
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
		   { "cairn run --audit --force", "does any step read what it doesn't declare?" },
		   { "cairn run --on kubernetes --dry-run=server", "would the cluster take it?" },
		   { "cairn run --detach --server https://cairn.example.org",
		     "on a cluster, while this laptop sleeps" }),
	  .complete = COMPLETE_PIPELINE_STEP, .ignores_sigpipe = true, .run = cmd_run },
	{ "resume", "continue a run that was stopped", "[RUN]", 0, 1,
	  "Continues a run that was interrupted, or whose engine died (default: the newest such "
	  "run), with the pipeline, params, inputs and code that it began with. Finished tasks "
	  "aren't executed again.",
	  OPTIONS(OPT_TRUST, OPT_SECRET, OPT_JOBS, OPT_ON, OPT_STORE, OPT_CACHE),
	  .json = "cairn.run/1 cairn.reproduce/1",
	  EXAMPLES({ "cairn resume", "the newest run that can go on" },
		   { "cairn resume digits-7kq2m", "this one" }),
	  .complete = COMPLETE_RUN, .ignores_sigpipe = true, .run = cmd_resume },
	{ "sweep", "search for the best params of a pipeline", "[PIPELINE] [NAME]", 0, 2,
	  "Runs the search NAME that the pipeline declares under `sweeps` (it may be left out "
	  "where "
	  "there is only one):\n\n"
	  "  sweeps:\n"
	  "    tune:\n"
	  "      params:\n"
	  "        lr: {min: 0.0001, max: 1, scale: log}\n"
	  "        depth: [2, 4, 8]\n"
	  "      maximize: evaluate.accuracy    # or minimize\n"
	  "      search: tpe                    # grid, random, sobol, tpe, halving, asha\n"
	  "      trials: 30\n"
	  "      seed: 7\n"
	  "      parallel: 2\n"
	  "      max_failures: 3\n"
	  "\nHalving and asha have `rungs: {param: epochs, min: 1, max: 27, factor: 3}`, too: the "
	  "param that makes a trial longer. Halving waits for a whole rung before it promotes the "
	  "best of it; asha promotes at once, so that no place stays empty.\n\n"
	  "Every trial is an ordinary run with params of its own: tasks that "
	  "don't depend on them come from the cache, and `cairn runs --sweep NAME`, `cairn "
	  "metrics` "
	  "and `cairn get` know it. The values of trial n follow from the declaration, the seed "
	  "and "
	  "the results of the trials before it, so the same sweep makes the same trials (asha: "
	  "with "
	  "one at a time; else the order in which trials end decides, too)."
	  "\n\nThe same command goes on where the sweep stopped, whatever stopped it: trials on "
	  "record count, and a trial that was killed is resumed. When the code, the inputs, the "
	  "steps or the search changed, the sweep begins again. A trial that fails counts as one "
	  "without a value; when more than `max_failures` fail (3 if it isn't given), the sweep "
	  "stops.\n\nPress Ctrl-C once to let running trials stop in order, twice to stop at once.",
	  OPTIONS(OPT_PARAMS,
		  { 'j', "jobs", "N", "run N trials at once (default: the sweep's `parallel`)" },
		  { 0, "trials", "N", "end at trial N (default: the sweep's `trials`)" },
		  { 0, "seed", "N", "another seed than the sweep's" }, OPT_ON, OPT_STORE,
		  OPT_CACHE),
	  .json = "cairn.sweep/1",
	  EXIT_CODES({ 0, "all trials ended, and one at least has a value" },
		     { 1, "too many trials failed, or none has a value" }, { 2, "wrong usage" },
		     { 3, "the pipeline or the configuration is invalid" },
		     { 4, "the environment: store, disk, database; or this sweep is running" },
		     { 130, "interrupted" }),
	  EXAMPLES({ "cairn sweep tune", "begin, or go on" },
		   { "cairn sweep tune --trials 60 -j 4", "more trials, four at once" },
		   { "cairn sweep train.yaml tune -p epochs=3", "with a fixed param" },
		   { "cairn runs --sweep tune --sort=-accuracy", "its trials, the best first" }),
	  .complete = COMPLETE_PIPELINE_SWEEP, .ignores_sigpipe = true, .run = cmd_sweep },
	{ "status", "show the state of a run", "[RUN]", 0, 1,
	  "Shows a run (default: the newest): its state, counts, running tasks and failures. -v "
	  "lists all tasks: hits with the run that made their result, skipped and blocked ones, "
	  "and hits that fail a gate, with the reason.",
	  OPTIONS(OPT_SERVER), .json = "cairn.status/1",
	  EXAMPLES({ "cairn status", "the newest run" },
		   { "cairn status digits-7kq2m --json", "for a program" }),
	  .complete = COMPLETE_RUN, .run = cmd_status },
	{ "logs", "print the logs of tasks", "[TASK...]", 0, CLI_ANY,
	  "Prints the logs of the named tasks or steps of a run; without names, of the tasks that "
	  "failed or are running, or of the run's only task. -f follows all of them that are "
	  "running, "
	  "each line behind the name of its task if there are several.",
	  OPTIONS(OPT_RUN, { 'f', "follow", NULL, "follow the log while the task runs" },
		  { 'n', "lines", "N",
		    "print only the last N lines; with -f, for a gang of pods: of each node" },
		  { 0, "attempt", "N", "print the Nth attempt instead of the last" },
		  { 0, "rank", "N", "print only the lines of rank N of a distributed step" },
		  OPT_SERVER),
	  EXAMPLES({ "cairn logs train", "of the newest run" },
		   { "cairn logs -r digits-7kq2m 'train[fold=0]'", "one task of a certain run" },
		   { "cairn logs -f train", "as it goes" },
		   { "cairn logs train --rank 1 -n 20", "the last lines of one rank" },
		   { "cairn logs -f train --rank 1 --server", "of a run that a server has" }),
	  .complete = COMPLETE_STEP, .run = cmd_logs },
	{ "cancel", "stop runs", "[RUN...]", 0, CLI_ANY,
	  "Asks the run's engine to stop (default: the only one that is running). Tasks get "
	  "SIGTERM and their grace period. If the engine died, deletes the run's remaining "
	  "Kubernetes Jobs.",
	  OPTIONS({ 0, "now", NULL, "don't wait for tasks to end in order" }, OPT_SERVER),
	  .json = "cairn.cancel/1",
	  EXAMPLES({ "cairn cancel", "the running one" },
		   { "cairn cancel digits-7kq2m --now", "at once" }),
	  .complete = COMPLETE_RUN, .run = cmd_cancel },
	{ "approve", "answer a step that waits for a person", "RUN STEP", 2, 2,
	  "Approves what the step asks, or refuses it: then the step fails, and what needs it is "
	  "blocked. The run goes on by itself; if its engine died, `cairn resume` takes the "
	  "answer. "
	  "STEP is a task (train[fold=0]), or a step with one question. The answer is recorded "
	  "with "
	  "your user name, the time and the message, and can't be changed. If the step says `by`, "
	  "only those users may answer; here their names are checked as far as everybody who can "
	  "write the project's database is trusted.",
	  OPTIONS({ 0, "refuse", NULL, "refuse instead" },
		  { 'm', "message", "TEXT", "what is recorded with the answer" }, OPT_SERVER),
	  .json = "cairn.approve/1",
	  EXAMPLES({ "cairn approve digits-7kq2m release", "go on" },
		   { "cairn approve last release --refuse -m 'too many false alarms'",
		     "don't, and say why" }),
	  .complete = COMPLETE_APPROVAL, .run = cmd_approve },
	{ "runs", "list past and present runs", "", 0, 0,
	  "Lists runs, newest first, and nondeterministic tasks. All given conditions must hold. A "
	  "metric is that of any task of the run, executed or hit; STEP.NAME is that of one step. "
	  "Metrics and params that an option names are columns, and with --sweep the params in "
	  "which "
	  "the trials differ.",
	  OPTIONS({ 'n', "limit", "N", "list at most N runs (default 20; 0: all)" },
		  { 0, "pipeline", "NAME", "only runs of this pipeline" },
		  { 0, "state", "STATE", "only runs in this state",
		    .choices = "running|died|succeeded|failed|cancelled|interrupted",
		    .complete = COMPLETE_CHOICE },
		  { 0, "since", "TIME", "started since: 2d (ago), 2025-03-01, 2025-03-01T12:00Z" },
		  { 0, "until", "TIME", "started before" },
		  { 'p', "param", "CONDITION",
		    "only runs whose param matches: lr=0.1, lr>0.01, optimizer!=sgd",
		    .repeats = true, .complete = COMPLETE_PARAM },
		  { 'm', "metric", "CONDITION", "only runs whose metric matches: 'accuracy>=0.9'",
		    .repeats = true },
		  { 't', "tag", "NAME", "only the run with this tag", .complete = COMPLETE_TAG },
		  { 0, "commit", "HEX", "only runs of this commit, or a prefix of it" },
		  { 0, "schedule", "NAME", "only runs that this schedule made" },
		  { 0, "sweep", "NAME", "only trials of this sweep", .complete = COMPLETE_SWEEP },
		  { 's', "sort", "METRIC",
		    "sort by this metric, smallest first; -METRIC: largest first" },
		  OPT_SERVER),
	  .json = "cairn.runs/1",
	  EXAMPLES({ "cairn runs", "the newest 20" },
		   { "cairn runs --state failed --json", "failed ones, for a program" },
		   { "cairn runs --since 7d --metric 'accuracy>=0.9' -p lr=0.1",
		     "good ones of this week" },
		   { "cairn runs --sort=-accuracy -n 5", "the best five" }),
	  .run = cmd_runs },
	{ "why", "explain why a task ran, or would run now", "[PIPELINE] STEP...", 1, CLI_ANY,
	  "Compares the task's key record with the nearest earlier one and names what differs: a "
	  "param, an input file and who made it, the code, the environment, a tool.",
	  OPTIONS(OPT_PARAMS,
		  { 'r', "run", "RUN", "explain why it ran in that run, instead of now",
		    .complete = COMPLETE_RUN },
		  OPT_STORE),
	  .json = "cairn.why/1",
	  EXAMPLES({ "cairn why train", "would it run now, and why" },
		   { "cairn why train --run last", "why it ran in the newest run" }),
	  .complete = COMPLETE_PIPELINE_STEP, .run = cmd_why },
	{ "graph", "draw a pipeline", "[PIPELINE]", 0, 1,
	  "Draws the steps and what they need: in the terminal, or as DOT, Mermaid or SVG.",
	  OPTIONS({ 0, "format", "FORMAT",
		    "text, dot, mermaid or svg (default: by the ending of -o, else text)",
		    .choices = "text|dot|mermaid|svg", .complete = COMPLETE_CHOICE },
		  { 0, "tasks", NULL,
		    "draw tasks instead of steps, as far as they are known without running" },
		  { 'o', "output", "FILE", "write to FILE instead of standard output",
		    .complete = COMPLETE_FILE }),
	  .json = "cairn.graph/1",
	  EXAMPLES({ "cairn graph", "in the terminal" },
		   { "cairn graph -o pipeline.svg", "as a picture" },
		   { "cairn graph --format dot | dot -Tpdf >pipeline.pdf", "through Graphviz" }),
	  .complete = COMPLETE_YAML, .run = cmd_graph },
	{ "metrics", "compare metrics of runs", "[RUN...]", 0, CLI_ANY,
	  "Prints a table with a row for each task that has metrics (default: of the newest 20 "
	  "such runs), and a column for each metric and each param or matrix value that differs. "
	  "Metrics of the "
	  "last steps come first. A step's metrics appear here when it has ended; while it runs, "
	  "`cairn run` shows its newest values on a terminal (in a pod: those of the last ten "
	  "seconds), and `cairn logs -f` its output.",
	  OPTIONS({ 0, "pipeline", "NAME", "only runs of this pipeline" },
		  { 0, "step", "STEP", "only metrics of this step", .repeats = true,
		    .complete = COMPLETE_STEP },
		  { 's', "sort", "NAME",
		    "sort by this metric, param or matrix value, smallest first; -NAME: largest "
		    "first" },
		  { 0, "filter", "CONDITION",
		    "only tasks that match, such as 'accuracy>=0.9' or 'lr=0.1'", .repeats = true },
		  { 0, "per", "NAME",
		    "of the tasks with the same param, matrix value or metric only the first one: "
		    "with --sort the best of each group",
		    .repeats = true },
		  { 0, "pareto", "NAME",
		    "only tasks that no other one beats in all metrics (or params) that are named "
		    "so; a small NAME is better, of -NAME a large one",
		    .repeats = true },
		  { 'n', "limit", "N", "read at most N runs (0: all)" },
		  { 'm', "metric", "NAME", "show only this metric", .repeats = true },
		  { 'a', "all", NULL,
		    "show all metrics, including nested ones (val.loss) and those that don't fit "
		    "the terminal, and all params" },
		  { 0, "plot", "METRIC",
		    "plot this metric over steps in the terminal (without a value: all); of the "
		    "newest run, unless RUN or -n is given",
		    .bare = "*", .repeats = true },
		  { 0, "svg", "FILE",
		    "write the plot to FILE (-: standard output); --plot selects metrics",
		    .complete = COMPLETE_FILE },
		  { 0, "html", "FILE", "write the table to FILE as a page (-: standard output)",
		    .complete = COMPLETE_FILE },
		  { 0, "tensorboard", "DIR", "write event files for TensorBoard to DIR/RUN/TASK",
		    .complete = COMPLETE_DIR },
		  OPT_STORE),
	  .json = "cairn.metrics/1 cairn.series/1",
	  EXAMPLES({ "cairn metrics", "of the newest runs" },
		   { "cairn metrics --plot loss -n 3", "the loss over steps, of the newest three" },
		   { "cairn metrics --tensorboard tb/", "event files for TensorBoard" },
		   { "cairn metrics --sort=-accuracy --filter 'lr<0.1'",
		     "best first, small learning rates" },
		   { "cairn metrics -n 0 --sort=-accuracy --per model", "the best of each model" },
		   { "cairn metrics --pareto=-accuracy --pareto=latency",
		     "accurate or quick: what no other task beats in both" }),
	  .complete = COMPLETE_RUN, .run = cmd_metrics },
	{ "diff", "explain why two runs differ", "[RUN [RUN]]", 0, 2,
	  "Shows where two runs began to differ, and traces each output that differs back to it: a "
	  "param, code, an input, a tool, or a nondeterministic step. Then compares params, code, "
	  "inputs, outputs and metrics side by side. A single RUN (default: the newest) is "
	  "compared with the previous run of its pipeline.",
	  OPTIONS({ 'a', "all", NULL, "show what is the same, too" }), .json = "cairn.diff/1",
	  EXAMPLES({ "cairn diff", "the newest two runs" },
		   { "cairn diff digits-7kq2m last", "an older one with the newest" }),
	  .complete = COMPLETE_RUN, .run = cmd_diff },
	{ "lineage", "show where content came from, or what was made from it", "WHAT", 1, 1,
	  "WHAT is RUN/TASK/OUTPUT, TASK/OUTPUT of the newest run, a task, a metric "
	  "(TASK@metric.NAME), a file on disk or a content id. Shows which task made it, with "
	  "which params, code and tools, and everything that the task read, back to the inputs and "
	  "their origins. --down shows what was made from it, and ends with a list of the affected "
	  "outputs with their runs and tags. A file is also found inside recorded directories (the "
	  "newest 500 are searched).",
	  OPTIONS({ 'd', "down", NULL, "show what was made from it" },
		  { 0, "depth", "N", "follow at most N steps" }, OPT_RUN,
		  { 0, "dot", NULL, "print a graph for Graphviz" },
		  { 0, "svg", "FILE", "write a drawing to FILE (-: standard output)",
		    .complete = COMPLETE_FILE },
		  OPT_STORE),
	  .json = "cairn.lineage/1",
	  EXAMPLES({ "cairn lineage evaluate/report", "of the newest run" },
		   { "cairn lineage model.bin", "of a file on disk" },
		   { "cairn lineage fashion/best@metric.accuracy", "how a number came about" },
		   { "cairn lineage --down labels.csv",
		     "these labels were wrong: which models are tainted?" }),
	  .complete = COMPLETE_FILE, .run = cmd_lineage },
	{ "export", "export a run as OpenLineage, SLSA or RO-Crate", "WHAT", 1, 1,
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
	  "WHAT is TASK/OUTPUT of the newest run (or TASK alone, when it has one output), "
	  "RUN/TASK/OUTPUT, RUN:OUTPUT, TASK@log, TASK@code, RUN@input.NAME, RUN@metric.NAME, a "
	  "content id or its beginning, or a RUN: id, run hash or the beginning of one, or a name "
	  "that `cairn tag` gave. A run becomes a directory with pipeline/, code/STEP/, "
	  "outputs/TASK/OUTPUT, logs/TASK.log, metrics.json and manifest.json. A run hash may be "
	  "that of a run which only the shared store knows.\n\nSTEP or STEP/OUTPUT of a step with "
	  "several tasks becomes a directory with an entry for each task, named as in the "
	  "directory that a step gets as its input: fold=0/, fold=1/.\n\nThe copy is yours: "
	  "changing it "
	  "doesn't touch the store.",
	  OPTIONS(OPT_RUN,
		  { 'o', "output", "PATH",
		    "write to PATH (default: the output's own name, or the run's id; -: standard "
		    "output)",
		    .complete = COMPLETE_FILE },
		  { 0, "replace", NULL, "replace an existing file or directory" },
		  { 0, "inputs", NULL, "with a run: copy its inputs, too" }, OPT_STORE),
	  .json = "cairn.get/1 cairn.get-step/1 cairn.get-run/1 cairn.get-metric/1",
	  EXIT_CODES({ 0, "done" },
		     { 1, "of a run: some of its content isn't in the store any more" },
		     { 4, "it doesn't exist" }),
	  EXAMPLES({ "cairn get train/model", "of the newest run" },
		   { "cairn get evaluate/report -r digits-7kq2m -o /tmp/report",
		     "of a certain one" },
		   { "cairn get fashion/best:model", "of the run that has this name" },
		   { "cairn get 1f0c9b2a -o run/", "a whole run" },
		   { "cairn get train@log -o -", "what a task printed" }),
	  .complete = COMPLETE_OUTPUT, .run = cmd_get },
	{ "report", "write runs as one HTML page", "RUN...", 1, 50,
	  "Writes the page of a run as the web interface shows it, or with several runs their "
	  "comparison, as one file for mail and archives: graph, timeline, tasks with reasons, "
	  "commands and logs, metrics, curves. The file asks no server for anything, and runs no "
	  "script but its own.\n\nA page of one run has the facts of 500 tasks (failed ones first) "
	  "and the last 256 KiB of each log, at most 16 MiB; rows of 20,000 tasks. What is left "
	  "out "
	  "is said. Artifacts aren't in it: `cairn get` copies them.",
	  OPTIONS({ 0, "html", "FILE", "write it there; -: to standard output",
		    .complete = COMPLETE_FILE }),
	  EXIT_CODES({ 0, "written" }, { 2, "wrong usage" },
		     { 4, "there is no such run; this program has no web interface; disk" }),
	  EXAMPLES({ "cairn report last --html run.html", "the newest run" },
		   { "cairn report fashion/best last --html comparison.html",
		     "two runs side by side" }),
	  .complete = COMPLETE_RUN, .run = cmd_report },
	{ "tag", "give names to runs", "[RUN NAME]", 0, 2,
	  "A name such as v2 or fashion/best stands for a run wherever a command takes a run, and "
	  "keeps that run from `cairn store gc`. Giving it again moves it; every change is "
	  "recorded with time, author and note. In a shared store, everybody sees the names. "
	  "Without operands, lists them.\n\nA name has at most 100 lower-case letters, digits and "
	  ". _ - /, and must not look like a run id or hash.",
	  OPTIONS({ 'l', "list", NULL, "list all names" },
		  { 0, "history", "NAME", "show what the name meant, newest first",
		    .complete = COMPLETE_TAG },
		  { 0, "delete", "NAME", "remove the name; its history stays",
		    .complete = COMPLETE_TAG },
		  { 'm', "note", "TEXT", "record this note with the change" }, OPT_STORE),
	  .json = "cairn.tag/1",
	  EXAMPLES({ "cairn tag last fashion/best -m 'first over 0.9'", "name the newest run" },
		   { "cairn get fashion/best:model", "what it made" },
		   { "cairn tag --history fashion/best", "what it was before" }),
	  .complete = COMPLETE_RUN, .run = cmd_tag },
	{ "schedule", "manage schedules", .subcommands = schedule_commands, .bare = "write",
	  .description = "Schedules are part of pipeline files; `cairn serve` fires them. The "
			 "project records firings, pauses and triggers, so these commands work "
			 "with and without a server. SCHEDULE is the name of a schedule, or "
			 "FILE:NAME if two pipelines have one of that name.",
	  EXAMPLES({ "cairn schedule list", "what there is, and when it comes next" },
		   { "cairn schedule trigger nightly", "now" },
		   { "cairn schedule --to crontab", "for an operator who prefers cron; the same as "
						    "`cairn schedule write --to crontab`" }) },
	{ "reproduce", "run a past run again, and compare its outputs byte by byte", "RUN", 1, 1,
	  "RUN is a run hash or a prefix of it, a run id or a tag. The pipeline, params, code and "
	  "inputs come from the store, so neither the original checkout nor the original machine "
	  "is needed; in an empty directory, name the store with --store. Nothing is taken from "
	  "the cache, and no other run uses the new results.\n\nEach task gets its recorded "
	  "inputs, so one pass finds every nondeterministic task; with --chained it gets what was "
	  "made just now. Outputs are compared file by file, and metrics within the `tolerance` "
	  "that the step declares. Outputs that differ only in metadata of their format (such as "
	  "times in a tar) count as the same after that normalisation, which is not the same "
	  "bytes: exit 10, like a metric within tolerance. Differences of the environment (tools, "
	  "kernel, CPU) are listed. A task that can't be run again reports which input, code or "
	  "secret is missing; the others go on. Nothing is exported; a step with side effects of "
	  "its own has them again, unless --skip leaves it out.\n\nA run that another project "
	  "began executes the code of whoever wrote it to the store. It is shown and refused, "
	  "unless you give --trust, and gets only the secrets that --secret names.\n\nBoth runs "
	  "are kept, whatever the retention says, until you drop the reproduction (--drop). `cairn "
	  "resume` continues an interrupted reproduction.",
	  OPTIONS({ 0, "chained", NULL,
		    "give each task what was made now, instead of the recorded inputs" },
		  { 0, "step", "STEP",
		    "run only this step or task (with --chained: and what it needs)",
		    .repeats = true, .complete = COMPLETE_STEP },
		  { 0, "skip", "STEP", "leave out this step or task, such as one with side effects",
		    .repeats = true, .complete = COMPLETE_STEP },
		  OPT_TRUST, OPT_SECRET, OPT_JOBS,
		  { 0, "html", "FILE", "also write the report as an HTML page",
		    .complete = COMPLETE_FILE },
		  { 'o', "output", "DIR", "keep its state in DIR/.cairn, instead of in the project",
		    .complete = COMPLETE_DIR },
		  { 0, "keep-workspace", NULL,
		    "keep the tasks' working directories in .cairn/work" },
		  { 0, "drop", NULL,
		    "drop the reproductions that RUN is part of, so that gc may remove them; runs "
		    "nothing" },
		  OPT_ON, OPT_STORE, OPT_CACHE),
	  .json = "cairn.reproduce/1 cairn.reproduce-drop/1 cairn.run/1",
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
	{ "serve", "run schedules, and serve the web interface and the HTTP API",
	  "[PROJECT_DIR...]", 0, CLI_ANY,
	  "Runs every schedule of the projects (default: this one), each run as a process of its "
	  "own. Stays in the foreground and logs one line per event. Finds pipeline files with "
	  "schedules in the project's root and in pipelines/. An edited file is loaded again by "
	  "itself; a broken one is reported and keeps its old schedules.\n\nSIGHUP loads "
	  "everything again. SIGTERM and SIGINT drain: no run starts, and running ones may go on "
	  "for --drain-timeout; then they are asked to stop, and `cairn resume` continues them. A "
	  "second signal asks them at once, a third one leaves them running. After kill -9, too, "
	  "runs go on and the next server follows them: no firing is lost, and none happens "
	  "twice.\n\nHTTP: /healthz, /readyz, /metrics (OpenMetrics), and the API under /api/v1 "
	  "that /api/v1/openapi.json describes; at / the web interface. `cairn serve token` makes "
	  "tokens with a role (viewer, operator, admin); that of --token-file is an admin's. At a "
	  "loopback address, the user who runs the server may read without a token, and nobody "
	  "else may. At a Unix socket (unix:PATH) he may do everything, and who may open the "
	  "socket may read. At any other address all but the health checks need a token, and the "
	  "server doesn't listen there without one. --tls-cert and --tls-key make it HTTPS; both "
	  "files are read again when they change, and at SIGHUP.\n\nBehind a proxy that signs "
	  "people in, --trust-proxy names the addresses from which a header (--identity-header) "
	  "is believed. They are viewers, unless --identity-role says otherwise.\n\nThe audit log "
	  "(.cairn/access/audit.jsonl, /api/v1/audit) has each change: who, by which way, from "
	  "where.\n\nA schedule's `notify` says who is told of failures. A "
	  "command gets the event as JSON on standard input and as CAIRN_EVENT, CAIRN_SCHEDULE, "
	  "CAIRN_RUN, CAIRN_MESSAGE and others; a webhook gets it as a POST, signed with its "
	  "secret: `Cairn-Signature: t=SECONDS,v1=HEX`, where HEX is the HMAC-SHA256 of SECONDS, a "
	  "dot and the body. A delivery that may succeed later is tried again for about a day, "
	  "across restarts.\n\nOn a cluster, several servers can share a Lease (serve.lease in "
	  "cairn.yaml, or --lease): one acts, the others stand by and take over when it is gone. A "
	  "server that loses the Lease ends at once; Jobs go on, and the next server continues its "
	  "runs. runners/kubernetes/deploy has the manifests.\n\n`cairn serve --unit` prints a "
	  "systemd unit with readiness, watchdog, reload and socket activation. In a container, "
	  "the time to stop must be longer than the drain timeout:\n docker run -d -v "
	  "/srv/project:/project -w /project -v /etc/cairn/token:/run/token:ro \\\n   -p "
	  "127.0.0.1:8410:8410 IMAGE cairn serve --listen 0.0.0.0:8410 --token-file /run/token",
	  OPTIONS({ 0, "listen", "ADDRESS",
		    "ADDR:PORT, unix:PATH or none (default: 127.0.0.1:8410, or systemd's sockets); "
		    "port 0: any",
		    .repeats = true },
		  { 0, "token-file", "FILE", "a token of an admin, one line (or CAIRN_SERVE_TOKEN)",
		    .complete = COMPLETE_FILE },
		  { 0, "tls-cert", "FILE", "serve HTTPS with this certificate chain (PEM)",
		    .complete = COMPLETE_FILE },
		  { 0, "tls-key", "FILE", "its key (PEM)", .complete = COMPLETE_FILE },
		  { 0, "trust-proxy", "ADDRESS",
		    "believe the identity header of this proxy: ADDR, ADDR/BITS or unix",
		    .repeats = true },
		  { 0, "identity-header", "NAME",
		    "the header in which such a proxy names the user, e.g. X-Forwarded-User" },
		  { 0, "identity-role", "[USER=]ROLE",
		    "role of this user, or of all others, that a proxy names (default: viewer)",
		    .repeats = true },
		  { 0, "pipeline", "FILE",
		    "serve this pipeline file, instead of all that have schedules", .repeats = true,
		    .complete = COMPLETE_YAML },
		  { 0, "drain-timeout", "DURATION",
		    "how long runs may go on when the server is asked to end (default 5m)" },
		  { 0, "max-runs", "N", "run at most N runs at once, over all projects" },
		  { 0, "lease", "NAME",
		    "act only while holding this Kubernetes Lease, which several servers of these "
		    "projects share (default: serve.lease in cairn.yaml)" },
		  { 0, "log", "FORMAT", "log format: text or json", .choices = "text|json",
		    .complete = COMPLETE_CHOICE },
		  { 0, "unit", NULL, "print a systemd unit, and do nothing else" }),
	  EXIT_CODES({ 0, "ended as it was asked to" },
		     { 2, "wrong usage, or an address that needs a token" },
		     { 3, "a configuration is invalid" },
		     { 4, "the environment: database, disk, an address that is taken" }),
	  EXAMPLES({ "cairn serve", "the project here, API at 127.0.0.1:8410" },
		   { "cairn serve /srv/a /srv/b --token-file /etc/cairn/token",
		     "two projects; the API may start runs" },
		   { "cairn serve --listen 0.0.0.0:8410 --tls-cert server.pem --tls-key server.key",
		     "for other machines, after `cairn serve token add`" },
		   { "cairn serve --unit >/etc/systemd/system/cairn.service", "as a service" }),
	  .subcommands = serve_commands, .complete = COMPLETE_DIR, .ignores_sigpipe = true,
	  .run = cmd_serve },
	{ "ui", "open the web interface of this project", "[PROJECT_DIR...]", 0, CLI_ANY,
	  "A `cairn serve` for the user at this machine: at a free port of 127.0.0.1, and with an "
	  "address that signs him in as an admin, once and within ten minutes. It opens a browser "
	  "at this address if there is a desktop, and prints it. The project's schedules fire "
	  "while "
	  "it runs. Ctrl-C ends it; running runs get five minutes, a second Ctrl-C stops them, and "
	  "`cairn resume` goes on with them.",
	  OPTIONS({ 0, "listen", "ADDRESS",
		    "ADDR:PORT of this machine (default: 127.0.0.1 with any free port)" },
		  { 0, "no-browser", NULL, "only print the address" }),
	  EXIT_CODES({ 0, "ended as it was asked to" }, { 2, "wrong usage" },
		     { 3, "a configuration is invalid" },
		     { 4, "the environment: database, disk, an address that is taken" }),
	  EXAMPLES({ "cairn ui", "this project in a browser" },
		   { "cairn ui --no-browser --listen 127.0.0.1:8500",
		     "from another machine, through `ssh -L 8500:127.0.0.1:8500`" }),
	  .complete = COMPLETE_DIR, .ignores_sigpipe = true, .run = cmd_ui },
	{ "secret", "manage secrets for steps", .subcommands = secret_commands,
	  .description = "Secrets reach the steps that name them as environment variables, and "
			 "nothing else: they aren't keyed or stored with results. Logs show *** "
			 "instead of a value's lines, also where a program prints them in base64, "
			 "percent-encoded or in JSON; lines of fewer than 4 bytes are not masked, "
			 "and outputs and metrics are never masked. CAIRN_SECRET_NAME in the "
			 "environment overrides a stored secret.",
	  EXAMPLES({ "cairn secret set REGISTRY_TOKEN", "keep one" },
		   { "cairn secret list", "which are there" }) },
	{ "image", "build Cairn's own container image, without Docker", "", 0, 0,
	  "The image holds this very program, the built-in steps, the helpers that run beside "
	  "tasks, every shared library that they need, CA certificates and time zones, and no "
	  "shell. Pods that run tasks use it, and so does `cairn serve` on a cluster. It is read "
	  "from the files that this program runs on (nothing is downloaded, nothing executed), and "
	  "the same files give the same bytes and digest, whenever and wherever it is made. Its "
	  "user is 10001:10001, and its root may be read-only.\n\n--output DIR writes an OCI image "
	  "layout. --output FILE.tar writes the same as one file, which `docker load`, `ctr images "
	  "import` and `podman load` take. --push sends it to a registry, with the credentials of "
	  "`docker login` (DOCKER_CONFIG, ~/.docker/config.json) or of a docker-credential helper "
	  "named there; blobs that are there already aren't sent again.\n\n"
	  "--add makes one image for several processors: run `cairn image --output DIR` of the "
	  "same "
	  "version on (or for) each other processor, and add those directories here. Each node "
	  "takes its own.",
	  OPTIONS({ 'o', "output", "PATH",
		    "a directory that is empty or doesn't exist, or FILE.tar",
		    .complete = COMPLETE_FILE },
		  { 0, "push", "REGISTRY/NAME:TAG", "send it to a registry" },
		  { 0, "add", "DIR", "add an image of Cairn for another processor (repeatable)",
		    .repeats = true, .complete = COMPLETE_FILE },
		  { 0, "name", "NAME:TAG",
		    "what it is called (default: as pushed, or cairn:VERSION)" },
		  { 0, "plain-http", NULL,
		    "use HTTP for the registry; one on this machine may use it anyway" }),
	  .json = "cairn.image/1",
	  EXAMPLES({ "cairn image --output cairn.tar", "for this machine: docker load takes it" },
		   { "cairn image --push registry.example/tools/cairn:0.1",
		     "for a cluster; name it in cairn.yaml as kubernetes.image" }),
	  .run = cmd_image },
	{ "step", "run a built-in step by itself", "NAME [OPTION...]", 0, CLI_ANY,
	  "The steps that a pipeline names with `uses`: shard, augment, train, evaluate, ray, "
	  "spark-submit. `cairn step` lists them, `cairn step NAME --help` shows the inputs, "
	  "outputs and settings of one. Everything after NAME belongs to the step.",
	  EXIT_CODES({ 0, "done" }, { 1, "the step failed" }, { 2, "wrong use" },
		     { 3, "a setting is invalid" }),
	  EXAMPLES({ "cairn step shard --help", "what a step takes" },
		   { "cairn step shard -i data=photos/ -o train=shards/ -w samples_per_shard=1000",
		     "" }),
	  .complete = COMPLETE_BUILTIN, .raw = true, .run = cmd_step },
	{ "store", "manage the store", .subcommands = store_commands,
	  .description =
		  "The store holds all content that runs read and made, each under its digest.",
	  EXAMPLES({ "cairn store stat", "how much is in it" },
		   { "cairn store gc --dry-run", "how much could be freed" }) },
	{ "doctor", "check that this machine and project are ready for runs", "[PIPELINE]", 0, 1,
	  "Checks the state directory, store, database, disk, time, libraries, and the tools that "
	  "the pipeline names, and says how to solve each problem. On Kubernetes, also checks the "
	  "cluster: its version, the account's rights, whether it would take a Job (dry run; "
	  "nothing is made), quotas and GPUs. With --deep, also runs a pod like a task's, which "
	  "reads from the store and writes to it, and removes it.",
	  OPTIONS(OPT_ON, { 0, "deep", NULL, "on Kubernetes: run a pod, too" }),
	  .json = "cairn.doctor/1",
	  EXIT_CODES({ 0, "no problem, perhaps warnings" }, { 1, "a problem was found" }),
	  EXAMPLES({ "cairn doctor", "check this project and machine" },
		   { "cairn doctor --on kubernetes", "and the cluster that the kubeconfig names" },
		   { "cairn doctor --on kubernetes --deep", "does a pod reach the store?" }),
	  .complete = COMPLETE_YAML, .run = cmd_doctor },
	{ "version", "print the version", "", 0, 0,
	  "With -v also how it was built and which libraries it uses.", .json = "cairn.version/1",
	  EXAMPLES({ "cairn version -v", "with the libraries" }), .run = cmd_version },
	{ "help", "explain a command, expressions or answers in JSON",
	  "[COMMAND [SUBCOMMAND] | expressions | json]", 0, 2,
	  "The same as `cairn COMMAND --help`; without a name, the list of commands. `cairn help "
	  "expressions` lists what may stand in `${{ }}`. `cairn help json` describes what "
	  "commands "
	  "print with --json, and with --json it prints a JSON Schema of that.",
	  OPTIONS({ 0, "man", NULL, "as a man page (roff); without a name, all pages" },
		  { 'o', "output", "DIR", "with --man: write each page to a file of its own in DIR",
		    .complete = COMPLETE_DIR },
		  { 0, "reference", "DIR",
		    "write the reference (Markdown) of the pipeline file, cairn.yaml, expressions, "
		    "commands and exit codes to DIR",
		    .complete = COMPLETE_DIR }),
	  .json = "cairn.help/1",
	  EXAMPLES({ "cairn help run", "" },
		   { "cairn help json --json >answers.json", "for a program that reads answers" },
		   { "cairn help expressions", "values, operators and functions of ${{ }}" },
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
	{ "schema", "print the JSON Schema of pipeline files", "", 0, 0,
	  "Editors check and complete pipeline files with it. `cairn init` writes it to "
	  ".cairn/schema.json, and new pipelines name it there in their first line: `# "
	  "yaml-language-server: $schema=.cairn/schema.json`. docs/guide/install.md has the "
	  "settings of several editors.",
	  EXAMPLES({ "cairn schema >pipeline.schema.json", "for all projects of an editor" }),
	  .run = cmd_schema },
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
		    "for how long a store that can't be reached is tried again (12h)" },
		  { 0, "cache", "DIR", "of the node: what its pods have fetched is kept there",
		    .complete = COMPLETE_DIR },
		  { 0, "cache-size", "SIZE", "how much of it (20Gi)" },
		  { 0, "mount-as", "NAME",
		    "the program's container mounts large inputs from pods/NAME in the cache" }),
	  EXIT_CODES({ 0, "the result is told" }, { 2, "the environment lacks something" },
		     { 4, "nothing could be told" }),
	  EXAMPLES({ "cairn pod --ready", "the container's postStart hook" }), .run = cmd_pod },
	{ "fetch-commit", "what brings a commit that a step uses", "URL COMMIT DIR", 3, 3,
	  "Makes DIR/tree, the files of the commit, by libgit2, and DIR/git. Prints what is wrong.",
	  EXIT_CODES({ 0, "they are there" }, { 4, "they can't be had" }),
	  EXAMPLES({ "cairn fetch-commit URL COMMIT DIR", "" }), .raw = true,
	  .run = cmd_fetch_commit },
	{ "names", "what a completion script offers", "KIND [WORD...]", 1, CLI_ANY,
	  "Prints the names of this kind that may stand after these words, one a line.",
	  EXAMPLES({ "cairn names steps run train.yaml --from", "" }), .raw = true,
	  .run = cmd_names },
	{ 0 },
};
