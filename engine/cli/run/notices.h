/* engine/cli/run/notices.h — notices of a run that this process executes: `notify` of its pipeline,
 * or of the schedule that it is a firing of.
 *
 * They are rows of the outbox (serve/notify/notify.h), which are sent while the run goes and for
 * NOTICES_WAIT_NS after its end. What is left waits for the next run or server of the project.
 */
#ifndef CAIRN_CLI_RUN_NOTICES_H
#define CAIRN_CLI_RUN_NOTICES_H

#include "cli/session.h"

#define NOTICES_WAIT_NS (5 * NS_PER_S)

struct notices;
struct notices *notices_new(struct cli *cli, struct session *s);
const struct run_notices *notices_ops(struct notices *n);
/* Waits for what is being sent, says what wasn't, and frees. NULL is fine. */
void notices_finish(struct notices *n);

#endif
