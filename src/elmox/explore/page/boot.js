// Before anything else is loaded: a failure to load the page's own files must not leave it blank.
addEventListener(
  "error",
  (event) => {
    const boot = document.getElementById("boot");
    if (!boot) return; // the page is running and shows its errors itself
    const file = event.target?.src ?? event.target?.href;
    boot.className = "notice error";
    boot.setAttribute("role", "alert");
    boot.textContent = file
      ? `The page could not be loaded: ${new URL(file).pathname} is missing. Reload to try again.`
      : `The page could not be started in this browser: ${event.message}`;
  },
  true,
);
