import { render } from 'preact';
import './style/tokens.css';
import './style/base.css';
import './style/parts.css';
import './style/pages.css';
import { App, loadPage } from './app';
import { listen as listenRoute } from './base/route';
import { listen as listenKeys } from './base/keys';
import { readProjects } from './base/project';
import { known, readSession } from './base/session';
import { listen as listenTheme } from './base/theme';
import { getAhead } from './pages/run/ahead';

void getAhead(loadPage(), Promise.all([readSession(), readProjects()])).then(() => {
  known.value = true;
});
listenTheme();
listenRoute();
listenKeys();
// Not in the task that evaluates the code: the two together are the longest task of a page.
setTimeout(() => render(<App />, document.getElementById('app')!));
