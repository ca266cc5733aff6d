let looks = 0;
const again = async () => {
  try {
    const answer = await fetch("/", { cache: "no-store", signal: AbortSignal.timeout(5000) });
    if (!answer.ok) throw new Error(answer.status);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (getSelection().type !== "Range") document.querySelector("main").replaceWith(page.querySelector("main"));
    document.body.classList.remove("is-lost");
    document.body.dataset.looks = ++looks;
  } catch {
    document.body.classList.add("is-lost");
  }
  setTimeout(again, 2000);
};
setTimeout(again, 2000);
