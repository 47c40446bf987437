import { render } from 'preact';
import './style/tokens.css';
import './style/base.css';
import './style/parts.css';
import './style/pages.css';
import { App } from './app';
import { listen as listenRoute } from './base/route';
import { listen as listenKeys } from './base/keys';
import { listen as listenTheme } from './base/theme';

// What the address needs is fetched at once, not one after the other as parts of the page come to
// show it.
if (/^\/runs\/[^/]+/.test(location.pathname)) void import('./pages/run/run');
if (/^\/runs\/[^/]+\/tasks\//.test(location.pathname)) {
  void import('./pages/run/task');
  void import('./log/view');
}

listenTheme();
listenRoute();
listenKeys();
render(<App />, document.getElementById('app')!);
