// The page of a report: what a run or a comparison shows, without a server.

import { render } from 'preact';
import '../style/tokens.css';
import '../style/base.css';
import '../style/parts.css';
import '../style/pages.css';
import { answerWith } from '../api/request';
import { listen as listenKeys } from '../base/keys';
import { projects } from '../base/project';
import { go, listen as listenRoute, matchRoute, part, place, url } from '../base/route';
import { listen as listenTheme } from '../base/theme';
import { words } from '../base/words';
import { keepStill } from '../live/live';
import Compare from '../pages/compare';
import RunPage from '../pages/run/run';
import { Empty, Time } from '../parts/bits';
import { Toasts } from '../parts/toast';
import { respond, type ReportData } from './answers';

const data = JSON.parse(document.getElementById('data')!.textContent ?? '') as ReportData;
const first =
  data.runs.length > 1
    ? url('/compare', { runs: data.runs.join(',') })
    : `/runs/${part(data.runs[0] ?? '')}`;

function Shown() {
  const path = place.value.path;
  const run = matchRoute('/runs/{run}/tasks/{task}', path) ?? matchRoute('/runs/{run}', path);
  if (run?.run && !run.run.includes('/') && data.of[run.run])
    return <RunPage key={run.run} params={run} />;
  if (path === '/compare' && data.compare) return <Compare />;
  return <Empty whole title={words.report.missing} hint={words.report.missingHint} />;
}

function Report() {
  const out = data.left_out;
  return (
    <div class="report">
      <header class="row">
        <a href={first}>{words.report.title(data.runs.length)}</a>
        <span class="quiet">
          {data.project} · <Time at={data.made} />
        </span>
        {out.tasks + out.details > 0 && (
          <span class="quiet">{words.report.leftOut(out.tasks, out.details)}</span>
        )}
      </header>
      <main id="main" tabIndex={-1}>
        <Shown />
      </main>
      <Toasts />
    </div>
  );
}

answerWith((address) => respond(data, address));
keepStill();
projects.value = [{ project: data.project, root: '' }];
document.title = `${data.runs.join(', ')} · ${words.product}`;
listenTheme();
listenRoute();
listenKeys();
if (place.value.path === '/') go(first, { replace: true });
render(<Report />, document.getElementById('app')!);
