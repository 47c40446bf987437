/* engine/cli/run/sweep/sweep.h — what `cairn sweep` tells the `cairn run` of a trial. */
#ifndef CAIRN_CLI_RUN_SWEEP_SWEEP_H
#define CAIRN_CLI_RUN_SWEEP_SWEEP_H

/* "NAME ID NUMBER": the run is this trial (record/rows/runs.h). */
#define SWEEP_TRIAL_VARIABLE "CAIRN_TRIAL"
/* When the trial isn't worth going on: [STEP, METRIC, MAXIMIZE, [[at, than], …]] (struct
 * early_stop). */
#define SWEEP_STOP_VARIABLE "CAIRN_TRIAL_STOP"
#define SWEEP_STOP_POINTS   1000

#endif
