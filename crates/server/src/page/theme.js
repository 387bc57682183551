// The light or dark theme: that of the system, unless the user chose one. This script runs before
// the page is drawn, so that the wrong theme never flashes.
(() => {
  const kept = "warpseek-theme";
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => {
    try {
      return localStorage.getItem(kept);
    } catch {
      return null;
    }
  };
  const now = () => chosen() ?? (system.matches ? "dark" : "light");
  const apply = () => {
    const theme = now();
    document.documentElement.dataset.theme = theme;
    const button = document.getElementById("theme");
    if (button) button.textContent = theme === "dark" ? "Light" : "Dark";
    button?.setAttribute("aria-label", theme === "dark" ? "Use light colours" : "Use dark colours");
  };
  apply();
  system.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", () => {
    apply();
    document.getElementById("theme").addEventListener("click", () => {
      const next = now() === "dark" ? "light" : "dark";
      try {
        localStorage.setItem(kept, next);
      } catch {
        // Without storage, the choice lasts as long as the page.
        document.documentElement.dataset.theme = next;
        return;
      }
      apply();
    });
  });
})();
