/* The table of `cairn schedule …`. */
#include "cli/cli.h"
#include "cli/command_table.h"

#define OPT_HERE                                                                  \
	{                                                                         \
		0, "here", NULL, "run it in this process, even if a server could" \
	}

const struct cli_command schedule_commands[] = {
	{ "list", "list schedules with their next time and last result", "[PIPELINE...]", 0,
	  CLI_ANY,
	  "Lists the schedules of these pipelines (default: of every pipeline file at the "
	  "project's root and in pipelines/ that has some).\n\nA rule names local times of its "
	  "time zone. `dst` says what happens at times that the clock skips or shows twice. once "
	  "(default): each fires exactly once, a skipped one at the very end of the jump, a "
	  "repeated one when it is first shown. skip: a skipped one doesn't fire. twice: a "
	  "repeated one fires both times. Rules that fire in every hour follow the clock, whatever "
	  "`dst` says. `@every 10m` depends only on the time that passes.",
	  .json = "cairn.schedule-list/1",
	  EXIT_CODES({ 0, "listed" }, { 3, "a pipeline file is invalid; the others were listed" }),
	  EXAMPLES({ "cairn schedule list", "of the whole project" },
		   { "cairn schedule list train.yaml --json", "of one pipeline, for a program" }),
	  .complete = COMPLETE_YAML, .run = cmd_schedule_list },
	{ "next", "show the next times of schedules", "[SCHEDULE...]", 0, CLI_ANY,
	  "Shows the nominal times to come, earliest first, of these schedules or of all that "
	  "aren't paused: in local time of the schedule's zone with its offset, and in UTC.",
	  OPTIONS({ 'n', "limit", "N", "show N times (default 10)" },
		  { 0, "after", "TIME", "show times after TIME instead of after now" }),
	  .json = "cairn.schedule-next/1",
	  EXIT_CODES({ 0, "printed" }, { 3, "a pipeline file is invalid" },
		     { 4, "there is no such schedule" }),
	  EXAMPLES({ "cairn schedule next -n 20", "of all schedules" },
		   { "cairn schedule next nightly --after 2026-10-24",
		     "around the end of summer time" }),
	  .run = cmd_schedule_next },
	{ "pause", "pause schedules", "SCHEDULE...", 1, CLI_ANY,
	  "Nothing fires until `resume`, and the times that pass meanwhile aren't made up for. "
	  "Running runs go on.",
	  .json = "cairn.schedule-pause/1", EXAMPLES({ "cairn schedule pause nightly", "" }),
	  .run = cmd_schedule_pause },
	{ "resume", "resume paused schedules", "SCHEDULE...", 1, CLI_ANY,
	  "Schedules fire again from their next time on. Use `backfill` to make up for missed "
	  "times.",
	  .json = "cairn.schedule-pause/1", EXAMPLES({ "cairn schedule resume nightly", "" }),
	  .run = cmd_schedule_resume },
	{ "trigger", "fire a schedule now", "SCHEDULE", 1, 1,
	  "Fires the schedule beside its rule, with its params; the nominal time is now. If the "
	  "project has a server, the server starts the run, after a running one unless `overlap` "
	  "is allow. Otherwise, or with --here, it runs in this process.",
	  OPTIONS(OPT_PARAMS, OPT_HERE, OPT_ON, OPT_STORE, OPT_CACHE),
	  .json = "cairn.schedule-trigger/1 cairn.run/1",
	  EXIT_CODES({ 0, "done, or left to a server" }, { 1, "a task failed" },
		     { 2, "wrong usage" }, { 3, "the pipeline is invalid" },
		     { 4, "no such schedule; environment" }, { 130, "interrupted" }),
	  EXAMPLES({ "cairn schedule trigger nightly", "now" },
		   { "cairn schedule trigger nightly --here -p epochs=1",
		     "here, with another param" }),
	  .ignores_sigpipe = true, .run = cmd_schedule_trigger },
	{ "history", "show past firings", "[SCHEDULE]", 0, 1,
	  "Lists firings, newest nominal time first, with their cause, state and run.",
	  OPTIONS({ 'n', "limit", "N", "list at most N (default 20; 0: all)" }),
	  .json = "cairn.schedule-history/1",
	  EXAMPLES({ "cairn schedule history", "of all" },
		   { "cairn schedule history nightly -n 100", "of one" }),
	  .run = cmd_schedule_history },
	{ "notices", "list notices that haven't been delivered", "", 0, 0,
	  "Lists notices of `notify:` that haven't arrived, of schedules and of other runs. A "
	  "server "
	  "tries each for about a day, with growing pauses, across restarts; one that was given up "
	  "stays listed for 30 days. "
	  "Of an address only the host is shown.",
	  .json = "cairn.schedule-notices/1", EXAMPLES({ "cairn schedule notices", "" }),
	  .run = cmd_schedule_notices },
	{ "backfill", "run a schedule for past times", "SCHEDULE FROM..TO", 2, 2,
	  "Runs every nominal time from FROM to TO, both included, that has not succeeded: oldest "
	  "first, one after the other (a server follows the schedule's `overlap` where that is "
	  "allow). Times are UTC unless they have an offset; a date alone is its midnight.",
	  OPTIONS({ 'n', "dry-run", NULL, "only list the times" },
		  { 'k', "keep-going", NULL, "continue after a run that failed" }, OPT_HERE, OPT_ON,
		  OPT_STORE, OPT_CACHE),
	  .json = "cairn.schedule-backfill/1",
	  EXIT_CODES({ 0, "done, or left to a server" }, { 1, "a task failed" },
		     { 2, "wrong usage" }, { 3, "the pipeline is invalid" },
		     { 4, "no such schedule; environment" }, { 130, "interrupted" }),
	  EXAMPLES({ "cairn schedule backfill nightly 2026-03-01..2026-03-07", "a week" },
		   { "cairn schedule backfill nightly 2026-03-01..2026-03-07 --dry-run",
		     "which times that is" }),
	  .ignores_sigpipe = true, .run = cmd_schedule_backfill },
	{ "write", "write schedules for another scheduler", "[SCHEDULE...]", 0, CLI_ANY,
	  "Writes crontab lines, systemd timers or Kubernetes CronJobs that call `cairn run "
	  "--schedule NAME`: a time that has run already isn't run again, whoever calls. What the "
	  "other scheduler can't express (L and # in a crontab, on_change anywhere) is an error; "
	  "what it does differently is a comment.",
	  OPTIONS({ 0, "to", "FORM", "crontab, systemd or kubernetes",
		    .choices = "crontab|systemd|kubernetes", .complete = COMPLETE_CHOICE },
		  { 'o', "output", "DIR", "systemd: write the unit files to DIR",
		    .complete = COMPLETE_DIR },
		  { 0, "image", "IMAGE",
		    "kubernetes: the image that has cairn (default: cairn with this version)" },
		  { 0, "claim", "NAME",
		    "kubernetes: the volume claim that holds the project (default: "
		    "cairn-project)" }),
	  EXIT_CODES({ 0, "written" }, { 2, "wrong usage" },
		     { 3, "a schedule can't be expressed in that form" },
		     { 4, "no such schedule; environment" }),
	  EXAMPLES({ "cairn schedule --to crontab | crontab -", "let cron do it" },
		   { "cairn schedule write --to systemd -o ~/.config/systemd/user", "user units" },
		   { "cairn schedule write --to kubernetes --image registry.example/cairn:1 | "
		     "kubectl apply -f -",
		     "CronJobs" }),
	  .run = cmd_schedule_write },
	{ 0 },
};
