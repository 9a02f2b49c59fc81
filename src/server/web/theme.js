// Sets light or dark before the page is painted. A plain script in the head: a module would come too late.
(function () {
  let theme = null;
  try {
    theme = localStorage.getItem('minfer.theme');
  } catch {
    // Storage is off: what the system says.
  }
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
})();
