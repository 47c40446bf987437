const answer = await fetch("/api/v1");
const { version } = await answer.json();
document.getElementById("server").textContent = `Version ${version}`;
